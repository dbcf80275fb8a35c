//! Small launches of kernels, in the words of `ptx-sim`'s options: a first look at a kernel without the host that
//! launches it.

use crate::abi::{
    ENTRIES, Entry, Field, Target,
    correlate::{FEW_CORRELATORS, ROW_CORRELATORS, WARPGROUP_CORRELATORS},
};

/// Number of inputs, channels and time samples.
#[derive(Clone, Copy)]
pub struct Size {
    pub inputs: u64,
    pub channels: u64,
    pub times: u64,
}

/// The size of first looks.
pub const SMALL: Size = Size { inputs: 32, channels: 2, times: 256 };

/// Blocks of a kernel whose blocks share the work, whatever their number.
const BLOCKS: u64 = 4;

/// Bytes of each buffer: more than what any kernel takes at the small size.
const BUFFER: u64 = 1 << 20;

/// Words of kernels whose parameters are no sizes alone: tables, pieces of work, descriptors.
const OTHERS: [&str; 6] = [
    "autocorrelate",
    "channelise",
    "beamform",
    "correlate_few",
    "reorder_fill",
    "reorder_planes_words",
];

/// Suites of kernels that are not named as their word.
const SUITES: [(&str, &str); 13] = [
    ("beamform_grid", "grid::"),
    ("beamform", "beamform::"),
    ("autocorrelate", "autocorrelate"),
    ("channelise_subchannels", "upchannelise::"),
    ("channelise", "channelise_gpu::"),
    ("correlate_mma_b1", "bits::"),
    ("correlate_wgmma_b1", "bits::"),
    ("correlate_packed", "conformance::sim_packed"),
    ("correlate", "integrations::"),
    ("reorder_pad_rows", "beamform::"),
    ("reorder_quantise", "quantise::"),
    ("reorder_planes", "planes::"),
    ("reorder", "reorder::"),
];

/// Name of tests of `tests/systems` that launch a kernel: its suite of the conformance tests where it has one, else that
/// of its place among the kernels.
pub fn suite(entry: &Entry) -> String {
    match correlator(entry) {
        Some(name) => format!("conformance::sim_{}::", name.replace('-', "_")),
        None => {
            let suite = SUITES.iter().find(|(name, _)| entry.name.starts_with(name));
            let word = || entry.name.split('_').next().unwrap_or_default();
            suite.map_or_else(word, |(_, suite)| suite).to_owned()
        }
    }
}

/// Name by which plans choose a correlator.
fn correlator(entry: &Entry) -> Option<&'static str> {
    let rows = ROW_CORRELATORS.iter().copied().flatten();
    let warpgroups = WARPGROUP_CORRELATORS.iter().copied().flatten();
    let few = FEW_CORRELATORS.iter().flatten().copied().flatten();
    let mut names = rows
        .map(|declared| (declared.kernel.entry.name, declared.name))
        .chain(warpgroups.map(|declared| (declared.kernel.entry.name, declared.name)))
        .chain(few.map(|kernel| (kernel.entry.name, "few")));
    names.find(|(name, _)| *name == entry.name).map(|(_, name)| name)
}

/// Options of `ptx-sim` that launch a kernel on samples of a size; none where its parameters say too little.
pub fn options(entry: &Entry, size: Size) -> Option<String> {
    let is_other = OTHERS.iter().any(|word| entry.name.starts_with(word));
    if is_other || entry.target == Target::Sm90a {
        return None;
    }
    let Entry { name, threads, shared_bytes, .. } = entry;
    let fields: Option<Vec<String>> =
        entry.fields.iter().map(|field| parameter(name, field, size)).collect();
    Some(format!(
        "--entry {name} --grid {} --block {threads} --shared {shared_bytes} --param {}",
        blocks(entry, size),
        fields?.join("+")
    ))
}

/// Number of blocks: the tiles of a correlator, else any.
fn blocks(entry: &Entry, size: Size) -> u64 {
    let mut rows = ROW_CORRELATORS.iter().copied().flatten();
    let Some(declared) = rows.find(|declared| declared.kernel.entry.name == entry.name) else {
        return BLOCKS;
    };
    let across = size.inputs.div_ceil(u64::from(declared.tile.0));
    across * (across + 1) / 2 * size.channels
}

/// A field of a kernel's parameters, by its name: a size, a flag that is off, or the address of a buffer.
fn parameter(name: &str, field: &Field, size: Size) -> Option<String> {
    let Size { inputs, channels, times } = size;
    let number = match field.name {
        "inputs" | "streams" | "beam_count" => inputs,
        // Lanes take neighbouring inputs.
        "input_stride" if name == "kurtosis_moments" => 2,
        "channel_stride" if name == "kurtosis_moments" => 2 * inputs,
        "time_stride" if name == "kurtosis_moments" => 2 * inputs * channels,
        "channels" => channels,
        "times" | "native_times" | "out_times" | "block_times" => times,
        "rows" => inputs * channels,
        "row_bytes" | "row_stride" | "source_stride" | "pitch" | "input_stride" => 2 * times,
        "channel_stride" => 2 * times * inputs,
        "time_stride" | "sample_bytes" => 2,
        "count" => inputs * channels * times,
        "bits" => 8,
        "rounds" => 1,
        "words" if field.bytes == 8 && name.starts_with("limits") => inputs * channels * times,
        "mode" | "flip" | "zero" | "reserved" | "first_shift" | "opaque_zero" | "low_nibbles" => 0,
        _ if field.bytes == 8 => return Some(format!("buffer:{BUFFER},fill=1")),
        _ => return None,
    };
    match field.bytes {
        4 => Some(format!("u32:{number}")),
        8 => Some(format!("u64:{number}")),
        _ => None,
    }
}

/// Kernels whose names hold a word, for an error.
pub fn near(word: &str) -> String {
    let names = ENTRIES.iter().map(|entry| entry.name).filter(|name| name.contains(word));
    let names: Vec<&str> = names.collect();
    if names.is_empty() { String::new() } else { format!("; these are: {}", names.join(", ")) }
}
