//! Map from visibilities of the correlator to baselines and polarisations of the file.

use corrust_host::correlate::baseline;

use crate::array::file::{Input, Polarisation};

/// Origin of a number of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The visibility of this baseline of the correlator.
    Plain(usize),
    /// Its conjugate.
    Conjugate(usize),
    /// An antenna has no such input.
    None,
}

/// Baselines and polarisations of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Products {
    /// The feeds that there are, X before Y, R before L.
    pub feeds: Vec<Polarisation>,
    /// Pairs of feeds, of the first antenna and the second.
    pub polarisations: Vec<(Polarisation, Polarisation)>,
    /// Pairs of antennas, `ant_1` and `ant_2`, as places in the array's list.
    pub pairs: Vec<(usize, usize)>,
    /// `[pair][polarisation]`.
    pub sources: Vec<Origin>,
}

impl Products {
    /// The products of `inputs`; what is wrong with them.
    pub(super) fn new(inputs: &[Input]) -> Result<Self, String> {
        use Polarisation::{L, R, X, Y};
        let of = |wanted: [Polarisation; 2]| {
            let mut feeds = wanted.to_vec();
            feeds.retain(|feed| inputs.iter().any(|input| input.polarisation == *feed));
            feeds
        };
        let feeds = match (of([X, Y]), of([R, L])) {
            (linear, circular) if circular.is_empty() => linear,
            (linear, circular) if linear.is_empty() => circular,
            _ => {
                return Err(
                    "\"inputs\" with linear and with circular feeds: expected one kind for UVH5"
                        .into(),
                );
            }
        };
        let mut polarisations: Vec<_> = feeds.iter().map(|&feed| (feed, feed)).collect();
        if let [first, second] = feeds[..] {
            polarisations.extend([(first, second), (second, first)]);
        }
        // Antennas as they first appear, so that most visibilities are taken as they are.
        let mut antennas: Vec<usize> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        antennas.extend(inputs.iter().map(|input| input.antenna).filter(|&a| seen.insert(a)));
        let place: std::collections::HashMap<_, _> =
            inputs.iter().enumerate().map(|(index, input)| (*input, index)).collect();
        let find = |antenna, polarisation| place.get(&Input { antenna, polarisation }).copied();
        let (mut pairs, mut sources) = (Vec::new(), Vec::new());
        for (index, &second) in antennas.iter().enumerate() {
            for &first in &antennas[..=index] {
                pairs.push((first, second));
                for &(p, q) in &polarisations {
                    sources.push(match (find(first, p), find(second, q)) {
                        (Some(j), Some(i)) if j <= i => Origin::Plain(baseline(i, j)),
                        (Some(j), Some(i)) => Origin::Conjugate(baseline(j, i)),
                        _ => Origin::None,
                    });
                }
            }
        }
        Ok(Self { feeds, polarisations, pairs, sources })
    }

    /// The file's numbers of the polarisations, after AIPS memo 117.
    pub(super) fn numbers(&self) -> Vec<i64> {
        use Polarisation::{L, R, X, Y};
        let number = |pair: &(Polarisation, Polarisation)| match pair {
            (R, R) => -1,
            (L, L) => -2,
            (R, _) => -3,
            (L, _) => -4,
            (X, X) => -5,
            (Y, Y) => -6,
            (X, _) => -7,
            (Y, _) => -8,
        };
        self.polarisations.iter().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Polarisation::{L, X, Y};

    fn inputs(list: &[(usize, Polarisation)]) -> Vec<Input> {
        list.iter().copied().map(Input::from).collect()
    }

    #[test]
    fn polarisations_are_found_in_any_order_of_inputs() {
        // Antenna 1 comes first, antenna 0 has its inputs the other way round.
        let products = Products::new(&inputs(&[(1, X), (1, Y), (0, Y), (0, X)])).unwrap();
        assert_eq!(products.pairs, [(1, 1), (1, 0), (0, 0)]);
        assert_eq!(products.numbers(), [-5, -6, -7, -8]);
        use Origin::{Conjugate, Plain};
        let expected = [
            [Plain(0), Plain(2), Plain(1), Conjugate(1)],
            // x of antenna 1 with x of antenna 0: inputs 0 and 3; y: 1 and 2; xy: 0 and 2; yx: 1 and 3.
            [Plain(6), Plain(4), Plain(3), Plain(7)],
            [Plain(9), Plain(5), Conjugate(8), Plain(8)],
        ];
        assert_eq!(products.sources, expected.concat());
    }

    #[test]
    fn what_an_antenna_lacks_has_no_source() {
        let products = Products::new(&inputs(&[(0, X), (0, Y), (1, Y)])).unwrap();
        let last = &products.sources[8..];
        assert_eq!(last, [Origin::None, Origin::Plain(5), Origin::None, Origin::None]);
        let one = Products::new(&inputs(&[(0, Y), (2, Y)])).unwrap();
        assert_eq!((one.numbers(), one.pairs.len()), (vec![-6], 3));
        let error = Products::new(&inputs(&[(0, X), (1, L)])).unwrap_err();
        assert!(error.contains("linear and with circular feeds"), "{error}");
    }
}
