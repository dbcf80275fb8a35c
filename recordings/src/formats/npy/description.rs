//! Descriptions beside arrays whose type does not say what they hold.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use corrust_host::{
    Encoding, Layout, Result,
    partial::PartialFile,
    quantise::Quantised,
    samples::{Missing, Shape},
    text::read_text,
};
use serde::{Deserialize, Serialize};

use super::{header::Dtype, reader::Reader};

/// Encoding of packed words, before their number of bits.
const PACKED: &str = "packed-";

/// Description of a file of 4-bit samples or of bits, which its type does not tell: the file `rec.npy.json` beside
/// `rec.npy`, JSON.
#[derive(Serialize, Deserialize)]
pub struct Description {
    pub(super) encoding: String,
    pub(super) layout: String,
    /// The array's, so that a description is not taken for that of another array of the same name.
    shape: Vec<usize>,
    /// Times that words hold; all that there is room for where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    /// Words of bits that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing: Vec<MissingWords>,
    /// Quantisation of values of few bits, where `corrust quantise` made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quantised: Option<Quantised>,
}

/// Words of bits that are missing, each range from a first number to one past the last.
#[derive(Serialize, Deserialize)]
pub(super) struct MissingWords {
    words: [usize; 2],
    /// All where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channels: Option<[usize; 2]>,
    /// Likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<[usize; 2]>,
}

impl Description {
    /// The description of an array of shape `shape`.
    pub fn new(encoding: Encoding, layout: Layout, shape: &[usize]) -> Self {
        let (encoding, layout) = (encoding.name().to_owned(), layout.name().to_owned());
        let shape = shape.to_vec();
        Self { encoding, layout, shape, times: None, missing: Vec::new(), quantised: None }
    }

    /// Adds the quantisation that made the values.
    pub fn quantised(self, quantised: Option<Quantised>) -> Self {
        Self { quantised, ..self }
    }

    /// Description of words of bits: planes of `shape` that hold `times` times, of which some words are missing.
    pub fn of_words(shape: &Shape, times: u64, missing: &[Missing]) -> Self {
        let word = shape.encoding.times();
        let words = times.div_ceil(word as u64) as usize;
        // A range that reaches beyond the samples is all of them.
        let part = |range: &Range<usize>, all: usize| {
            (range.start > 0 || range.end < all).then(|| [range.start, range.end.min(all)])
        };
        let gaps = missing.iter().map(|gap| MissingWords {
            words: [gap.times.start / word, gap.times.end.div_ceil(word)],
            channels: part(&gap.channels, shape.channels),
            inputs: part(&gap.inputs, shape.inputs),
        });
        let axes = Self::axes_of_words(shape, words);
        let plain = Self::new(shape.encoding, shape.layout, &axes);
        Self { times: Some(times), missing: gaps.collect(), ..plain }
    }

    /// Description of packed words of `bits` bits that hold `times` times of `channels` and `inputs`.
    pub fn of_packed(bits: u32, shape: &[usize], times: u64) -> Self {
        let plain = Self::new(Encoding::Ci4, Layout::Cnt, shape);
        Self { encoding: format!("{PACKED}{bits}"), times: Some(times), ..plain }
    }

    /// Bits of packed words.
    pub(super) fn packed_bits(&self) -> Option<u32> {
        self.encoding.strip_prefix(PACKED)?.parse().ok()
    }

    /// Number of times in `words` words of a row; the error is the reason alone.
    pub(super) fn packed_times(&self, words: usize, per_word: usize) -> Result<u64, String> {
        let room = (words as u64).saturating_mul(per_word as u64);
        let times = self.times.unwrap_or(room);
        if times.div_ceil(per_word as u64) == words as u64 {
            return Ok(times);
        }
        Err(format!(
            "\"times\" of {times} in {words} words of {per_word} times each: expected as many as they hold"
        ))
    }

    /// Lengths of the axes of an array of `words` words.
    pub fn axes_of_words(shape: &Shape, words: usize) -> Vec<usize> {
        let (planes, bytes) = (shape.encoding.planes(), shape.encoding.bytes());
        let mut axes = vec![shape.channels, shape.inputs, planes, words, bytes];
        if planes == 1 {
            axes.remove(2);
        }
        axes
    }

    /// Times that the last of `length` words lacks, and the missing samples; the error is the reason alone.
    pub(super) fn words(
        &self,
        shape: &Shape,
        length: usize,
    ) -> Result<(usize, Vec<Missing>), String> {
        let word = shape.encoding.times();
        let room = length.saturating_mul(word);
        let times = self.times.map_or(room, |times| usize::try_from(times).unwrap_or(usize::MAX));
        if times.div_ceil(word) != length {
            return Err(format!(
                "\"times\" of {times} in {length} words of {}, which hold up to {word} each: expected {} to {room}",
                shape.encoding,
                (room + 1).saturating_sub(word).min(room)
            ));
        }
        let gap = |gap: &MissingWords| {
            let range = |what: &str, [start, end]: [usize; 2], all: usize| {
                if start < end && end <= all {
                    return Ok(start..end);
                }
                Err(format!(
                    "\"missing\" {what} [{start}, {end}]: expected a first one and one past the last, 0 to {all}"
                ))
            };
            let channels = gap.channels.unwrap_or([0, shape.channels]);
            let inputs = range("inputs", gap.inputs.unwrap_or([0, shape.inputs]), shape.inputs)?;
            let words = range("words", gap.words, length)?;
            Ok(Missing {
                times: words.start * word..times.min(words.end * word),
                channels: range("channels", channels, shape.channels)?,
                inputs,
            })
        };
        Ok((room - times, self.missing.iter().map(gap).collect::<Result<_, String>>()?))
    }

    /// The name of the description of the file `path`.
    pub fn path(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".json");
        name.into()
    }

    /// Writes the description of the file `path`.
    ///
    /// # Errors
    /// [`Error::Io`](corrust_host::Error::Io).
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file = PartialFile::create(Self::path(path))?;
        file.append(&serde_json::to_vec(self).expect("text and numbers"))?;
        file.append(b"\n")?;
        file.finish()
    }

    /// The description of an array of bytes, if it has one: a file that is none, or that of another
    /// array, is passed over.
    pub(super) fn beside(reader: &Reader) -> Option<Self> {
        if !matches!(reader.dtype(), Some(Dtype::Uint8 | Dtype::Uint32)) {
            return None;
        }
        let text = read_text(&Self::path(reader.path())).ok()?;
        let description: Self = serde_json::from_str(&text).ok()?;
        (description.shape == reader.shape()).then_some(description)
    }
}
