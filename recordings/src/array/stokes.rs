//! Stokes parameters of two polarisations.
//!
//! ```text
//! linear feeds     I = XX* + YY*    Q = XX* - YY*    U = XY* + YX* = 2 Re XY*     V = -j (XY* - YX*) = 2 Im XY*
//! circular feeds   I = RR* + LL*    Q = 2 Re RL*     U = 2 Im RL*                 V = RR* - LL*
//! ```
//!
//! These are the definitions of the IAU (Transactions of the IAU 15B, 1974, p. 166) in the form of Hamaker and Bregman,
//! "Understanding radio polarimetry III", A&AS 117, 161 (1996): X points north, Y east, so that the position angle
//! `atan2(U, Q) / 2` grows from north through east; voltages go with `exp(+j omega t)`, as those of the F-engine's channels do;
//! V is positive for waves that are right-hand circular in the sense of the IEEE, whose field turns counter-clockwise as the
//! observer sees it. Nothing is halved, so I is the sum of the powers. Pulsar software has `-V` (the convention PSR/IEEE of van
//! Straten, Manchester, Johnston and Reynolds, PASA 27, 104, 2010). Voltages of a band that runs downwards are conjugates unless they
//! were inverted: their V (of circular feeds their U) has the other sign.

use std::{fmt, str::FromStr};

use corrust_host::{Error, Result};

use super::file::{Array, Input, Polarisation};

/// Stokes parameters to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stokes {
    /// `I` alone.
    I,
    /// `I`, `Q`, `U`, `V`.
    Iquv,
}

impl Stokes {
    /// Number of parameters.
    pub const fn count(self) -> usize {
        match self {
            Self::I => 1,
            Self::Iquv => 4,
        }
    }
}

impl fmt::Display for Stokes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I => "I",
            Self::Iquv => "IQUV",
        })
    }
}

impl FromStr for Stokes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "I" => Ok(Self::I),
            "IQUV" => Ok(Self::Iquv),
            _ => Err(Error::invalid(format!("Stokes parameters {text:?}: expected I or IQUV"))),
        }
    }
}

/// Kind of a pair of feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feeds {
    /// X and Y.
    Linear,
    /// R and L.
    Circular,
}

impl Feeds {
    /// `I`, `Q`, `U`, `V` of one sample of each feed, `[re, im]`: of X and Y, or of R and L. Of integers the parameters are
    /// exact integers.
    ///
    /// ```
    /// use corrust_recordings::formats::array::Feeds;
    ///
    /// // Right-hand circular: Y a quarter of a period after X.
    /// assert_eq!(Feeds::Linear.stokes([1.0, 0.0], [0.0, -1.0]), [2.0, 0.0, 0.0, 2.0]);
    /// assert_eq!(Feeds::Circular.stokes([1.0, 0.0], [0.0, 0.0]), [1.0, 0.0, 0.0, 1.0]);
    /// ```
    pub fn stokes(self, first: [f64; 2], second: [f64; 2]) -> [f64; 4] {
        let ([a, b], [c, d]) = (first, second);
        let (of_first, of_second) = (a * a + b * b, c * c + d * d);
        let (sum, difference) = (of_first + of_second, of_first - of_second);
        // Twice the product of the first with the conjugate of the second.
        let (re, im) = (2.0 * (a * c + b * d), 2.0 * (b * c - a * d));
        match self {
            Self::Linear => [sum, difference, re, im],
            Self::Circular => [sum, re, im, difference],
        }
    }
}

/// Pairs of feeds: two inputs of an antenna each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Their kind.
    pub feeds: Feeds,
    /// The inputs of X and Y, or of R and L.
    pub inputs: Vec<[usize; 2]>,
}

impl Polarisation {
    /// Kind of its feed, and its place in a pair.
    const fn place(self) -> (Feeds, usize) {
        match self {
            Self::X => (Feeds::Linear, 0),
            Self::Y => (Feeds::Linear, 1),
            Self::R => (Feeds::Circular, 0),
            Self::L => (Feeds::Circular, 1),
        }
    }
}

impl Array {
    /// Pairs of the `chosen` ones of `inputs` inputs, or of all where none are chosen, in the order in which they begin.
    ///
    /// # Errors
    /// As for [`inputs`](Array::inputs); [`Error::File`] or [`Error::Invalid`] when an input's other polarisation is not among
    /// them, or feeds are of two kinds.
    pub fn pairs(&self, inputs: usize, chosen: &[usize]) -> Result<Pairs> {
        let listed = self.inputs(inputs)?;
        let all: Vec<usize> = match chosen {
            [] => (0..inputs).collect(),
            chosen => chosen.to_vec(),
        };
        let mut found: Option<Feeds> = None;
        let mut pairs: Vec<(usize, [Option<usize>; 2])> = Vec::new();
        for &index in &all {
            let Some(&Input { antenna, polarisation }) = listed.get(index) else {
                return Err(Error::invalid(format!("input {index}: expected one below {inputs}")));
            };
            let (feeds, place) = polarisation.place();
            if *found.get_or_insert(feeds) != feeds {
                return Err(self.error(format_args!(
                    "input {index} is {polarisation:?}, another kind than those before: expected X and Y, or R and L, of \
                     all for Stokes parameters"
                )));
            }
            let at = pairs.iter().position(|(of, _)| *of == antenna).unwrap_or_else(|| {
                pairs.push((antenna, [None; 2]));
                pairs.len() - 1
            });
            pairs[at].1[place] = Some(index);
        }
        let both = |(antenna, pair): (usize, [Option<usize>; 2])| {
            match pair {
            [Some(first), Some(second)] => Ok([first, second]),
            [one, other] => Err(self.error(format_args!(
                "input {} of antenna {antenna} is without its other polarisation: expected both for Stokes parameters",
                one.or(other).unwrap_or_default()
            ))),
        }
        };
        let inputs: Vec<_> = pairs.into_iter().map(both).collect::<Result<_>>()?;
        let feeds = found.ok_or_else(|| self.error("no inputs: expected some"))?;
        Ok(Pairs { feeds, inputs })
    }

    /// Checks that inputs of beams of `[polarisations, dishes]` are all dishes of one polarisation, then all of the other: "inputs"
    /// that the array lists; else the default order of its antennas, or of a recording that has inputs of `side_by_side`
    /// polarisations of an antenna one after the other.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Invalid`] when they are in another order.
    pub fn check_beams(
        &self,
        [polarisations, dishes]: [usize; 2],
        side_by_side: usize,
    ) -> Result<()> {
        if polarisations != 2 || self.inputs.is_some() {
            return match polarisations {
                2 => self.beam_feeds(polarisations, dishes).map(drop),
                _ => Ok(()),
            };
        }
        let by_default = self.antennas.as_ref().is_some_and(|all| all.len() == dishes);
        if dishes == 1 || (side_by_side == 1 && !by_default) {
            return Ok(());
        }
        Err(self.error(format_args!(
            "inputs are the 2 polarisations of an antenna, then those of the next, where beams of 2 polarisations take {dishes} \
             dishes of one, then those of the other: expected beams of 1 polarisation of {} dishes, with weights of 0 for the \
             other polarisation's, or \"inputs\" in an array file that list another order",
            2 * dishes
        )))
    }

    /// Kind of the feeds of beams, and the places of X and Y, or of R and L, among their polarisations. Inputs that the array
    /// lists are the dishes of one polarisation, then those of the other; X and Y where it lists none.
    ///
    /// # Errors
    /// [`Error::Invalid`] of other than two polarisations; [`Error::File`] or [`Error::Invalid`] when the listed inputs are not in
    /// this order.
    pub fn beam_feeds(&self, polarisations: usize, dishes: usize) -> Result<(Feeds, [usize; 2])> {
        if polarisations != 2 {
            return Err(Error::invalid(format!(
                "Stokes parameters of beams of {polarisations} polarisation{}: expected 2",
                if polarisations == 1 { "" } else { "s" }
            )));
        }
        let Some(listed) = &self.inputs else { return Ok((Feeds::Linear, [0, 1])) };
        let polarisation = |input: &Input| input.polarisation.place();
        let halves = (listed.len() == 2 * dishes).then(|| listed.split_at(dishes));
        let one = |half: &[Input]| {
            let first = polarisation(half.first()?);
            half.iter().all(|input| polarisation(input) == first).then_some(first)
        };
        let found = halves.and_then(|(first, second)| one(first).zip(one(second)));
        match found {
            Some(((feeds, first), (other, second))) if feeds == other && first != second => {
                Ok((feeds, if first == 0 { [0, 1] } else { [1, 0] }))
            }
            _ => Err(self.error(format_args!(
                "\"inputs\": expected {dishes} of X, then {dishes} of Y (or Y, X; R, L; L, R), as beams of two \
                 polarisations have them"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
        [a * c - b * d, a * d + b * c]
    }

    /// Waves with `exp(+j omega t)`, X north, Y east.
    #[test]
    fn waves_have_the_signs_of_the_definition() {
        let linear = |x, y| Feeds::Linear.stokes(x, y);
        assert_eq!(linear([3.0, 4.0], [0.0, 0.0]), [25.0, 25.0, 0.0, 0.0]);
        assert_eq!(linear([0.0, 0.0], [3.0, 4.0]), [25.0, -25.0, 0.0, 0.0]);
        // A position angle of 45 degrees, north through east, whatever the phase.
        assert_eq!(linear([3.0, 4.0], [3.0, 4.0]), [50.0, 0.0, 50.0, 0.0]);
        assert_eq!(linear([3.0, 4.0], [-3.0, -4.0]), [50.0, 0.0, -50.0, 0.0]);
        // The field turns from north to east: Re exp(j omega t) north, Re -j exp(j omega t) = sin(omega t) east.
        let x = [3.0, 4.0];
        assert_eq!(linear(x, product(x, [0.0, -1.0])), [50.0, 0.0, 0.0, 50.0]);
        assert_eq!(linear(x, product(x, [0.0, 1.0])), [50.0, 0.0, 0.0, -50.0]);
    }

    /// `R = (X + j Y) / sqrt 2`, `L = (X - j Y) / sqrt 2`: the same wave has the same parameters, here of twice the power.
    #[test]
    fn both_kinds_of_feeds_agree() {
        for (x, y) in
            [([1.0, 2.0], [3.0, -5.0]), ([7.0, 0.0], [-1.0, 4.0]), ([0.0, 1.0], [0.0, 0.0])]
        {
            let turned = product([0.0, 1.0], y);
            let right = [x[0] + turned[0], x[1] + turned[1]];
            let left = [x[0] - turned[0], x[1] - turned[1]];
            let expected = Feeds::Linear.stokes(x, y).map(|value| 2.0 * value);
            assert_eq!(Feeds::Circular.stokes(right, left), expected);
            let [i, q, u, v] = expected;
            assert_eq!(i * i, q * q + u * u + v * v);
        }
    }

    #[test]
    fn pairs_are_found_in_any_order() {
        let array = |text: &str| Array::parse(text).unwrap();
        let two = array(r#"{"positions": [[0, 0, 0], [1, 0, 0]]}"#);
        let expected = Pairs { feeds: Feeds::Linear, inputs: vec![[0, 1], [2, 3]] };
        assert_eq!(two.pairs(4, &[]).unwrap(), expected);
        assert_eq!(two.pairs(4, &[3, 2]).unwrap().inputs, [[2, 3]]);
        assert!(two.pairs(4, &[0, 3]).unwrap_err().to_string().contains("input 0 of antenna 0"));
        assert!(two.pairs(4, &[4]).unwrap_err().to_string().contains("expected one below 4"));
        assert!(two.pairs(2, &[]).unwrap_err().to_string().contains("other polarisation"));
        let listed = array(r#"{"inputs": [[1, "L"], [0, "R"], [0, "L"], [1, "R"]]}"#);
        let expected = Pairs { feeds: Feeds::Circular, inputs: vec![[3, 0], [1, 2]] };
        assert_eq!(listed.pairs(4, &[]).unwrap(), expected);
        let mixed = array(r#"{"inputs": [[0, "X"], [0, "Y"], [1, "R"], [1, "L"]]}"#);
        assert!(mixed.pairs(4, &[]).unwrap_err().to_string().contains("input 2 is R"));
    }

    #[test]
    fn beams_have_the_feeds_of_their_dishes() {
        let array = |text: &str| Array::parse(text).unwrap();
        assert_eq!(array("{}").beam_feeds(2, 5).unwrap(), (Feeds::Linear, [0, 1]));
        assert!(array("{}").beam_feeds(1, 5).is_err());
        let listed = array(r#"{"inputs": [[0, "Y"], [1, "Y"], [0, "X"], [1, "X"]]}"#);
        assert_eq!(listed.beam_feeds(2, 2).unwrap(), (Feeds::Linear, [1, 0]));
        let circular = array(r#"{"inputs": [[0, "R"], [1, "R"], [0, "L"], [1, "L"]]}"#);
        assert_eq!(circular.beam_feeds(2, 2).unwrap(), (Feeds::Circular, [0, 1]));
        for text in [
            r#"{"inputs": [[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]]}"#,
            r#"{"inputs": [[0, "X"], [1, "X"], [0, "L"], [1, "L"]]}"#,
            r#"{"inputs": [[0, "X"], [0, "Y"]]}"#,
        ] {
            let error = array(text).beam_feeds(2, 2).unwrap_err().to_string();
            assert!(error.contains("expected 2 of X, then 2 of Y"), "{error}");
        }
    }

    #[test]
    fn inputs_of_beams_are_in_their_order() {
        let array = |text: &str| Array::parse(text).unwrap();
        let two = r#""positions": [[0, 0, 0], [1, 0, 0]]"#;
        let error = |array: Array, shape, side_by_side| {
            array.check_beams(shape, side_by_side).unwrap_err().to_string()
        };
        // The recording's order, or the array's default.
        let expected = "expected beams of 1 polarisation of 4 dishes";
        assert!(error(array("{}"), [2, 2], 2).contains(expected));
        assert!(error(array(&format!("{{{two}}}")), [2, 2], 1).contains(expected));
        for (polarisations, dishes, side_by_side) in [(1, 4, 2), (2, 1, 2), (2, 3, 1)] {
            array(&format!("{{{two}}}"))
                .check_beams([polarisations, dishes], side_by_side)
                .unwrap();
        }
        // Listed inputs count.
        let listed = |inputs: &str| array(&format!(r#"{{{two}, "inputs": [{inputs}]}}"#));
        listed(r#"[0, "X"], [1, "X"], [0, "Y"], [1, "Y"]"#).check_beams([2, 2], 2).unwrap();
        let mixed = listed(r#"[0, "X"], [0, "Y"], [1, "X"], [1, "Y"]"#);
        assert!(error(mixed, [2, 2], 1).contains("expected 2 of X, then 2 of Y"));
    }

    #[test]
    fn names_are_read_back() {
        for stokes in [Stokes::I, Stokes::Iquv] {
            assert_eq!(stokes.to_string().parse::<Stokes>().unwrap(), stokes);
        }
        assert!("IQ".parse::<Stokes>().is_err());
    }
}
