//! All that an autocorrelation remembers.

use std::{fs::File, io::Read, ops::Range, path::Path};

use serde::{Deserialize, Serialize};

use super::head::Head;
use crate::{
    autocorrelate::shape::Shape,
    error::{Error, Result},
    partial::PartialFile,
};

/// Version of the files that states are saved to.
const VERSION: u64 = 3;

/// Most counts of a sensor with which no sum overflows, however many instants there are: a sum of products is at most
/// the product of two sensors' counts.
const MOST_COUNTS: u64 = u32::MAX as u64;

/// Returns the number of instants of a stream at most, of whose sensors none has more than `most_counts` counts: few counts
/// overflow no sum.
pub(super) fn most_instants(shape: &Shape, most_counts: u64) -> u64 {
    if most_counts > MOST_COUNTS { shape.max_instants() } else { 1 << 62 }
}

/// Longest first line of a saved state.
const HEADER_LIMIT: usize = 1 << 10;

/// Bytes of the checksum at the end of a saved state.
const CHECKSUM: usize = 4;

/// The first line of a saved state, JSON that a person can read.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// Kind of the file.
    corrust: String,
    version: u64,
    scheme: String,
    sensors: usize,
    groups: usize,
    lags: usize,
    /// Rows.
    curves: usize,
    instants: u64,
    /// Whether counts have two bytes; every sensor is two then, and every row four.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wide: bool,
    /// Seconds of an instant, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dwell: Option<f64>,
    /// Whether the last sensor is a mask.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    masked: bool,
}

impl Header {
    const KIND: &str = "autocorrelation state";

    /// Reads the first line of a file's bytes, and where it ends, where that is among them.
    fn of(bytes: &[u8]) -> Result<(Self, Option<usize>)> {
        let line = bytes.iter().take(HEADER_LIMIT).position(|&byte| byte == b'\n');
        let header = Self::parse(&bytes[..line.unwrap_or(bytes.len().min(HEADER_LIMIT))])?;
        Ok((header, line))
    }

    /// The shape, and the number of rows, of counts of one byte.
    fn shape(&self) -> Result<(Shape, usize)> {
        let &Self { sensors, groups, lags, curves: rows, wide, .. } = self;
        let shape = Shape { sensors, groups, lags, scheme: self.scheme.parse()? };
        shape.check()?;
        if !wide {
            return Ok((shape, rows));
        }
        let shape = Shape { sensors: sensors.saturating_mul(2), ..shape };
        shape.check()?;
        Ok((shape, rows.saturating_mul(4)))
    }

    /// Bytes of its file, at most: a row's first sums are at three moments a point, of two sensors.
    fn most_bytes(&self) -> Result<u64> {
        let (shape, rows) = self.shape()?;
        let row = (row_bytes(&shape) as u64).saturating_add(24 * shape.points() as u64);
        Ok(row.saturating_mul(rows as u64).saturating_add((HEADER_LIMIT + CHECKSUM) as u64))
    }

    /// Reads the first line, without its end.
    fn parse(line: &[u8]) -> Result<Self> {
        /// Fields of every version.
        #[derive(Deserialize)]
        struct Version {
            corrust: String,
            version: u64,
        }
        // Beginning of the first version's files.
        let parsed = if line.starts_with(b"corrtau") {
            Ok(Version { corrust: Self::KIND.to_owned(), version: 1 })
        } else {
            serde_json::from_slice(line)
        };
        match parsed {
            Ok(Version { corrust, version: VERSION }) if corrust == Self::KIND => {}
            Ok(Version { corrust, version }) if corrust == Self::KIND => {
                return Err(Error::invalid(format!(
                    "an autocorrelation state of version {version}: expected {VERSION}, begin the \
                     stream anew or resume it with the corrust that saved it"
                )));
            }
            _ => {
                return Err(Error::invalid(format!(
                    "starts with \"{}\": expected an autocorrelation state, a line of JSON with \
                     \"corrust\": \"{}\" and \"version\": {VERSION}",
                    line[..line.len().min(8)].escape_ascii(),
                    Self::KIND
                )));
            }
        }
        serde_json::from_slice(line).map_err(|error| {
            Error::invalid(format!(
                "the first line of an autocorrelation state is no description: {error}"
            ))
        })
    }
}

/// All that an autocorrelation remembers of its stream: the sums so far, and the counts that the products to
/// come need. The same on every device.
///
/// A *row* is one curve: the autocorrelation of a sensor, or the cross-correlation of a pair.
///
/// Counts of two bytes are two sensors' of one byte, the low digit `l` and the high digit `h` of `x = 256 h +
/// l`. As sums of products are linear in both counts, four rows of digits make the row of such a pair:
/// `A(x, y) = 65536 A(h, h') + 256 (A(h, l') + A(l, h')) + A(l, l')`. So whatever computes bytes computes
/// these, and every number here is one of bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Shape in bytes: sensors are digits.
    pub(crate) shape: Shape,
    /// Whether counts have two bytes.
    pub(crate) wide: bool,
    /// Seconds of an instant, where they are known.
    pub(crate) dwell: Option<f64>,
    /// Whether the last sensor is a mask: 1 in instants that count, 0 in others.
    pub(crate) masked: bool,
    /// For each row the sensor that is not delayed and the one that is.
    pub(crate) pairs: Vec<[u32; 2]>,
    /// `T`, instants seen.
    pub(crate) instants: u64,
    /// `A`: `[row][point]`.
    pub(crate) products: Vec<u64>,
    /// Sum of all counts: `[row]` of the pair.
    pub(crate) totals: Vec<[u64; 2]>,
    /// Zero-delay registers: counts since the last complete bin, of the sensor that is not delayed,
    /// `[row][group]`.
    pub(crate) partial: Vec<u32>,
    /// Delay lines `[row][group][cell]`, of the delayed sensor. With `M = T >> k` complete bins,
    /// cell `c` of group `k` is `Y_{k,c}[M]`, the delayed bin that the next product at lag `c`
    /// needs; in the classic scheme `Z_k[M - 1 - c]`. Cell 0 of group 0 would be the next sample:
    /// it is zero.
    pub(crate) cells: Vec<u32>,
    /// Contribution of the first counts to bins that curves leave out.
    pub(crate) head: Head,
}

impl State {
    /// A stream that has not begun.
    pub(crate) fn new(shape: Shape, pairs: Vec<[u32; 2]>) -> Self {
        let rows = pairs.len();
        let head = Head::new(&shape, &pairs);
        Self {
            shape,
            wide: false,
            dwell: None,
            masked: false,
            pairs,
            instants: 0,
            products: vec![0; rows * shape.points()],
            totals: vec![[0; 2]; rows],
            partial: vec![0; rows * shape.groups],
            cells: vec![0; rows * shape.groups * shape.cells()],
            head,
        }
    }

    /// A stream of counts of two bytes that has not begun.
    pub(crate) fn new_wide(shape: Shape, pairs: &[[u32; 2]]) -> Self {
        let shape = Shape { sensors: 2 * shape.sensors, ..shape };
        let pairs = pairs.iter().flat_map(|&pair| digits(pair)).collect();
        Self { wide: true, ..Self::new(shape, pairs) }
    }

    /// The same stream, whose next counts may have two bytes; one that has such counts already stays as it
    /// is.
    ///
    /// ```
    /// use corrust_host::{Autocorrelator, Device};
    ///
    /// let mut plan = Autocorrelator::builder(1).device(Device::Cpu).build()?;
    /// plan.accumulate(&[1_u8, 2])?;
    /// let wide = plan.state()?.widened();
    /// let mut plan = Autocorrelator::resume(wide).device(Device::Cpu).build()?;
    /// plan.accumulate(&[1000_u16])?;
    /// assert_eq!(plan.snapshot()?.products[[0, 1]], 2 * 1 + 1000 * 2);
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn widened(self) -> Self {
        if self.wide {
            return self;
        }
        let mut wide = Self::new_wide(self.shape, &self.pairs);
        (wide.instants, wide.dwell, wide.masked) = (self.instants, self.dwell, self.masked);
        let Shape { groups, .. } = self.shape;
        let (points, cells) = (self.shape.points(), groups * self.shape.cells());
        let copy64 = |to: &mut [u64], from: &[u64], size: usize| {
            let rows = to.chunks_exact_mut(4 * size).zip(from.chunks_exact(size));
            rows.for_each(|(rows, from)| rows[3 * size..].copy_from_slice(from));
        };
        copy64(&mut wide.products, &self.products, points);
        // The delay lines and sums of a low digit are needed wherever it is in a row.
        for (rows, &[direct, delayed]) in wide.totals.chunks_exact_mut(4).zip(&self.totals) {
            rows.copy_from_slice(&[[0, 0], [0, delayed], [direct, 0], [direct, delayed]]);
        }
        let copy32 = |to: &mut [u32], from: &[u32], size: usize, place: usize| {
            let rows = to.chunks_exact_mut(4 * size).zip(from.chunks_exact(size));
            rows.for_each(|(rows, from)| rows[place * size..][..size].copy_from_slice(from));
        };
        // Rows 2 and 3 have a direct low digit, 1 and 3 a delayed one.
        copy32(&mut wide.partial, &self.partial, groups, 2);
        copy32(&mut wide.partial, &self.partial, groups, 3);
        copy32(&mut wide.cells, &self.cells, cells, 1);
        copy32(&mut wide.cells, &self.cells, cells, 3);
        wide.head.widen(&self.head);
        wide
    }

    /// Makes room for a stream's, in the same memory where it fits.
    pub(crate) fn make_room(&mut self, shape: &Shape, pairs: &[[u32; 2]]) {
        if self.shape != *shape || self.pairs != pairs {
            *self = Self::new(*shape, pairs.to_vec());
        }
    }

    /// The state of a range of rows alone, of the sensors `[first, first + sensors)`, without a head.
    pub(super) fn rows(&self, rows: Range<usize>, first: u32, sensors: usize) -> Self {
        let Shape { groups, .. } = self.shape;
        let cut = |size: usize| rows.start * size..rows.end * size;
        let pairs = self.pairs[rows.clone()].iter().map(|pair| pair.map(|sensor| sensor - first));
        Self {
            shape: Shape { sensors, ..self.shape },
            wide: false,
            dwell: None,
            masked: false,
            pairs: pairs.collect(),
            instants: self.instants,
            products: self.products[cut(self.shape.points())].to_vec(),
            totals: self.totals[rows.clone()].to_vec(),
            partial: self.partial[cut(groups)].to_vec(),
            cells: self.cells[cut(groups * self.shape.cells())].to_vec(),
            head: Head::default(),
        }
    }

    /// Replaces the numbers of a range of rows by those of their state alone.
    pub(super) fn set_rows(&mut self, rows: &Range<usize>, state: &Self) {
        let Shape { groups, .. } = self.shape;
        let cut = |size: usize| rows.start * size..rows.end * size;
        let cells = groups * self.shape.cells();
        self.products[cut(self.shape.points())].copy_from_slice(&state.products);
        self.totals[rows.clone()].copy_from_slice(&state.totals);
        self.partial[cut(groups)].copy_from_slice(&state.partial);
        self.cells[cut(cells)].copy_from_slice(&state.cells);
    }

    /// Counts of the sensor that has most, in bytes.
    pub(super) fn most_counts(&self) -> u64 {
        self.totals.as_flattened().iter().copied().max().unwrap_or(0)
    }

    /// Sensors, groups and lags.
    pub fn shape(&self) -> Shape {
        Shape { sensors: self.shape.sensors / if self.wide { 2 } else { 1 }, ..self.shape }
    }

    /// Whether counts have two bytes.
    pub fn is_wide(&self) -> bool {
        self.wide
    }

    /// Seconds of an instant, where the stream's [builder](crate::autocorrelate::Builder::dwell) was told.
    pub fn dwell(&self) -> Option<f64> {
        self.dwell
    }

    /// Whether the last sensor is a mask: 1 in instants that count, 0 in others.
    pub fn is_masked(&self) -> bool {
        self.masked
    }

    /// Takes over how long an instant is and whether the last sensor is a mask, where these are told.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the stream so far has others.
    pub(super) fn continue_with(&mut self, dwell: Option<f64>, masked: Option<bool>) -> Result<()> {
        if let (Some(own), Some(told)) = (self.dwell, dwell)
            && (own / told - 1.0).abs() > 1e-9
        {
            return Err(Error::invalid(format!(
                "an autocorrelation state of instants of {own:e} s: expected {told:e} s, as those that follow have"
            )));
        }
        if masked.is_some_and(|masked| masked != self.masked) {
            return Err(Error::invalid(match self.masked {
                true => "an autocorrelation state with a mask: the counts that follow have none",
                false => "an autocorrelation state without a mask: the counts that follow have one",
            }));
        }
        self.dwell = self.dwell.or(dwell);
        Ok(())
    }

    /// Instants seen.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// For each row the sensor that is not delayed and the one that is: equal in an
    /// autocorrelation.
    pub fn pairs(&self) -> Vec<[u32; 2]> {
        if !self.wide {
            return self.pairs.clone();
        }
        self.pairs.iter().step_by(4).map(|pair| pair.map(|digit| digit / 2)).collect()
    }

    /// Whether the rows are the autocorrelations of all sensors, in order.
    pub(crate) fn is_auto(&self) -> bool {
        self.pairs.len() == self.shape.sensors
            && self.pairs.iter().enumerate().all(|(row, pair)| *pair == [row as u32; 2])
    }

    /// The state as bytes: a line of JSON that describes it, the numbers, little-endian, and a
    /// checksum of everything before (CRC-32, as in zip).
    pub fn to_bytes(&self) -> Vec<u8> {
        let Shape { sensors, groups, lags, scheme } = self.shape();
        let header = Header {
            corrust: Header::KIND.to_owned(),
            version: VERSION,
            scheme: scheme.name().to_owned(),
            sensors,
            groups,
            lags,
            curves: self.pairs.len() / if self.wide { 4 } else { 1 },
            instants: self.instants,
            wide: self.wide,
            dwell: self.dwell,
            masked: self.masked,
        };
        let mut bytes = serde_json::to_vec(&header).expect("text and numbers");
        bytes.push(b'\n');
        let words = |bytes: &mut Vec<u8>, words: &[u32]| {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        let longs = |bytes: &mut Vec<u8>, longs: &[u64]| {
            bytes.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
        };
        words(&mut bytes, self.pairs.as_flattened());
        longs(&mut bytes, &self.products);
        longs(&mut bytes, self.totals.as_flattened());
        words(&mut bytes, &self.partial);
        words(&mut bytes, &self.cells);
        words(&mut bytes, &self.head.sums);
        bytes.extend(crc32(&bytes).to_le_bytes());
        bytes
    }

    /// The state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the bytes are not those of a state, not all of them, or others than
    /// were written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (header, line) = Header::of(bytes)?;
        let (content, checksum) =
            bytes.split_last_chunk::<CHECKSUM>().expect("as long as its first line");
        // A file without an end of line ends with its header.
        let start = line.map_or(content.len(), |line| line + 1).min(content.len());
        let mut body = &content[start..];

        let (shape, rows) = header.shape()?;
        let Header { groups, lags, instants, wide, dwell, masked, .. } = header;
        if let Some(dwell) = dwell.filter(|dwell| !(*dwell > 0.0 && dwell.is_finite())) {
            return Err(Error::invalid(format!(
                "an autocorrelation state of instants of {dwell} s: expected more than 0"
            )));
        }
        // The head comes last: how many sensors it has is known once the pairs are.
        let row = row_bytes(&shape);
        let wrong_size = |expected: u128| {
            Error::invalid(format!(
                "an autocorrelation state with {} bytes of numbers: expected {expected} for {rows} \
                 curves of {groups} groups of {lags} lags",
                content.len() - start
            ))
        };
        let least = (rows as u128) * (row as u128);
        if rows == 0 || least > body.len() as u128 {
            return Err(wrong_size(least));
        }
        let (found, expected) = (crc32(content), u32::from_le_bytes(*checksum));
        if found != expected {
            return Err(Error::invalid(format!(
                "a damaged autocorrelation state: its checksum is {found:08x}, expected {expected:08x}"
            )));
        }
        let mut take = |count: usize| {
            let (part, rest) = body.split_at(count);
            body = rest;
            part
        };
        let pairs: Vec<[u32; 2]> = words32(take(8 * rows)).as_chunks().0.to_vec();
        if let Some(sensor) =
            pairs.as_flattened().iter().find(|&&sensor| sensor as usize >= shape.sensors)
        {
            return Err(Error::invalid(format!(
                "an autocorrelation state with sensor {sensor}: expected numbers below {}",
                shape.sensors
            )));
        }
        let digits_of = |rows: &[[u32; 2]]| digits(rows[0].map(|digit| digit / 2)) == rows;
        if wide && !pairs.chunks(4).all(digits_of) {
            return Err(Error::invalid(
                "an autocorrelation state of wide counts whose rows are not those of digits: expected \
                 high and high, high and low, low and high, low and low",
            ));
        }
        let mut head = Head::new(&shape, &pairs);
        let mut state = Self {
            shape,
            wide,
            dwell,
            masked,
            pairs,
            instants,
            products: words64(take(8 * rows * shape.points())),
            totals: words64(take(16 * rows)).as_chunks().0.to_vec(),
            partial: words32(take(4 * rows * shape.groups)),
            cells: words32(take(4 * rows * shape.groups * shape.cells())),
            head: Head::default(),
        };
        if body.len() != 4 * head.sums.len() {
            return Err(wrong_size(least + 4 * head.sums.len() as u128));
        }
        head.sums = words32(body);
        state.head = head;
        state.check()?;
        Ok(state)
    }

    /// Checks that counts can have led to the state.
    fn check(&self) -> Result<()> {
        let Self { shape, instants, .. } = self;
        let wrong = |what: &str, found: u64, expected: String| {
            Err(Error::invalid(format!(
                "an autocorrelation state with {what} {found}: expected {expected}"
            )))
        };
        let most = most_instants(shape, self.most_counts());
        if *instants > most {
            return wrong("instants", *instants, format!("at most {most}"));
        }
        let largest = instants.saturating_mul(255);
        if let Some(&total) = self.totals.as_flattened().iter().find(|&&total| total > largest) {
            return wrong("a total of", total, format!("at most {largest}"));
        }
        for registers in self.partial.chunks(shape.groups) {
            let mut least = 0;
            for (group, &register) in registers.iter().enumerate() {
                let most = 255 * (instants & ((1 << group) - 1));
                if !(least..=most).contains(&register.into()) {
                    return wrong(
                        "a partial bin of",
                        register.into(),
                        format!("{least} to {most}"),
                    );
                }
                least = register.into();
            }
        }
        for (line, cells) in self.cells.chunks(shape.cells()).enumerate() {
            let most = 255 << (line % shape.groups);
            if let Some(&cell) = cells.iter().find(|&&cell| cell > most) {
                return wrong("a bin of", cell.into(), format!("at most {most}"));
            }
        }
        for ([from, to], sums) in self.head.parts() {
            let most = 255 * to.min(*instants).saturating_sub(from);
            if let Some(&sum) = sums.iter().find(|&&sum| u64::from(sum) > most) {
                return wrong("a first sum of", sum.into(), format!("at most {most}"));
            }
        }
        Ok(())
    }

    /// Writes the state to a file, which appears when complete.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut file = PartialFile::create(path)?;
        file.append(&self.to_bytes())?;
        file.finish()
    }

    /// Reads a state from a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] when the file is not a state, or not all of one.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let of_file = |error: Error| Error::file(path, error.to_string());
        let mut file = File::open(path).map_err(Error::io(path, "read"))?;
        let mut bytes = Vec::new();
        let start = (&mut file).take(HEADER_LIMIT as u64).read_to_end(&mut bytes);
        start.map_err(Error::io(path, "read"))?;
        let most =
            Header::of(&bytes).and_then(|(header, _)| header.most_bytes()).map_err(of_file)?;
        // A byte more, so that one that is too long is seen to be.
        let mut rest = file.take(most.saturating_add(1).saturating_sub(bytes.len() as u64));
        rest.read_to_end(&mut bytes).map_err(Error::io(path, "read"))?;
        Self::from_bytes(&bytes).map_err(of_file)
    }
}

/// The pairs of digits of a pair of sensors whose counts have two bytes, the low one first: high and high, high
/// and low, low and high, low and low.
fn digits([direct, delayed]: [u32; 2]) -> [[u32; 2]; 4] {
    let [direct, delayed] = [2 * direct, 2 * delayed];
    [[direct + 1, delayed + 1], [direct + 1, delayed], [direct, delayed + 1], [direct, delayed]]
}

/// CRC-32 of IEEE 802.3, reflected: finds every change of up to 32 neighbouring bits.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut remainder = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                let carry = remainder & 1;
                remainder = (remainder >> 1) ^ (0xedb8_8320 * carry);
                bit += 1;
            }
            table[byte] = remainder;
            byte += 1;
        }
        table
    };
    let step = |crc: u32, &byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

/// Bytes of a row of a file, without its sensors' first sums.
fn row_bytes(shape: &Shape) -> usize {
    8 + 8 * shape.points() + 16 + 4 * shape.groups * (1 + shape.cells())
}

fn words32(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

fn words64(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
}

#[cfg(test)]
mod tests {
    /// The check value of the algorithm's definition.
    #[test]
    fn crc32_is_that_of_ieee_802_3() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
