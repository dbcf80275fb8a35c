//! Small launches of kernels, in the words of `ptx-sim`'s options: a first look at a kernel without the host that
//! launches it.

use crate::abi::{
    ENTRIES, Entry, Field,
    beamform::{
        BEAMFORMERS, CHUNK_VOLTAGES, LOW_NIBBLES, MMA_SHUFFLE_96X512, TILE_SHUFFLE_96X512,
        WARPGROUP_BEAMFORMERS,
    },
    channelise::output,
    correlate::{
        FEW_CORRELATORS, FEW_INPUTS, FEW_STAGE_BYTES, FEW_WARPS, ROW_CORRELATORS,
        WARPGROUP_CORRELATORS,
    },
    reorder::Strip,
};

/// Number of inputs, channels and time samples.
#[derive(Clone, Copy)]
pub struct Size {
    pub inputs: u64,
    pub channels: u64,
    pub times: u64,
}

impl Size {
    /// 32-bit words of a time of int8 samples.
    fn words(self) -> u64 {
        self.inputs * self.channels / 2
    }
}

/// The size of first looks.
pub const SMALL: Size = Size { inputs: 32, channels: 2, times: 256 };

/// Blocks of a kernel whose blocks share the work, whatever their number.
const BLOCKS: u64 = 4;

/// Bytes of each buffer: more than what any kernel takes at the small size.
const BUFFER: u64 = 1 << 20;

/// Words of kernels whose parameters are no sizes alone: tables, pieces of work, tensor maps.
pub const OTHERS: [&str; 7] = [
    "autocorrelate",
    "channelise",
    "beamform_grid",
    "correlate_wgmma",
    "kurtosis_judge",
    "reorder_fill",
    "reorder_place",
];

/// Suites of kernels that are not named as their word.
const SUITES: [(&str, &str); 16] = [
    ("beamform_grid", "grid::"),
    ("beamform_mma_s4", "beamform::sim_mma_s4::"),
    ("beamform_mma_shuffle", "beamform::shuffles"),
    ("beamform_wgmma", "beamform::sim_wgmma::"),
    ("beamform", "beamform::sim_mma::"),
    ("autocorrelate", "autocorrelate"),
    ("channelise_subchannels", "upchannelise::"),
    ("channelise", "channelise_gpu::"),
    ("correlate_mma_b1", "bits::"),
    ("correlate_wgmma_b1", "bits::"),
    ("correlate_packed", "conformance::sim_packed"),
    ("correlate", "integrations::"),
    ("reorder_pad_rows", "beamform::sim_mma::sizes"),
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
    if is_other {
        return None;
    }
    let Entry { name, threads, mut shared_bytes, .. } = *entry;
    if name == "reorder_shift_strips" {
        shared_bytes = Strip::new(size.words() as u32, 0).shared_bytes();
    }
    let fields: Option<Vec<String>> =
        entry.fields.iter().map(|field| parameter(entry, field, size)).collect();
    Some(format!(
        "--entry {name} --grid {} --block {threads} --shared {shared_bytes} --param {}",
        blocks(entry, size),
        fields?.join("+")
    ))
}

/// Number of blocks: the tiles of a correlator, the warps of one of few inputs, else any.
fn blocks(entry: &Entry, size: Size) -> u64 {
    let mut rows = ROW_CORRELATORS.iter().copied().flatten();
    if let Some(declared) = rows.find(|declared| declared.kernel.entry.name == entry.name) {
        let across = size.inputs.div_ceil(u64::from(declared.tile.0));
        return across * (across + 1) / 2 * size.channels;
    }
    match few_inputs(entry) {
        // A warp has all baselines of as many channels as 64 inputs are of.
        Some(most) => {
            size.channels.div_ceil(u64::from(FEW_INPUTS) / most).div_ceil(u64::from(FEW_WARPS))
        }
        None => BLOCKS,
    }
}

/// Most inputs of a correlator of few.
fn few_inputs(entry: &Entry) -> Option<u64> {
    let mut sizes = FEW_CORRELATORS.iter().flatten();
    let place = sizes.find_map(|kernels| kernels.iter().position(|of| of.entry == *entry))?;
    Some(16 << place)
}

/// Beams of a block of a beamformer, and bytes of its row of voltages.
fn beamformer(entry: &Entry) -> Option<(u64, u64)> {
    let tiles = BEAMFORMERS.iter().chain(&[(MMA_SHUFFLE_96X512, TILE_SHUFFLE_96X512)]);
    let tiles = tiles.map(|(kernel, tile)| (kernel.entry, (tile.beams(), tile.row_bytes())));
    let warpgroups = WARPGROUP_BEAMFORMERS
        .iter()
        .map(|(kernel, tile)| (kernel.entry, (tile.beams, tile.dishes)));
    let (_, (beams, bytes)) = tiles.chain(warpgroups).find(|(of, _)| of == entry)?;
    Some((beams.into(), bytes.into()))
}

/// A field that means something else in this kernel than in most.
fn own(entry: &Entry, field: &str, size: Size) -> Option<u64> {
    let Size { inputs, channels, times } = size;
    if let Some((beams, row_bytes)) = beamformer(entry) {
        return match field {
            "voltage_pitch" | "row_bytes" => Some(row_bytes),
            "sample_pitch" => Some(times),
            "streams" => Some(channels),
            "groups" => Some(inputs.div_ceil(beams)),
            "weight_chunks" => Some(row_bytes / u64::from(CHUNK_VOLTAGES)),
            "low_nibbles" => Some(LOW_NIBBLES.into()),
            "output" => Some(output::CI4.into()),
            "pass" => Some(0),
            _ => None,
        };
    }
    if let Some(most) = few_inputs(entry) {
        let bytes = if entry.name.contains("ci4") { 1 } else { 2 };
        let inputs = inputs.min(most);
        let is_delivered = entry.name.contains("tcn");
        return match field {
            "inputs" => Some(inputs),
            "stride" => Some(bytes * if is_delivered { channels * inputs } else { times }),
            "slices" => Some(1),
            "slice_stages" => Some(times.div_ceil(u64::from(FEW_STAGE_BYTES / FEW_INPUTS) / bytes)),
            "unit" => Some(16),
            "excess" => Some(0),
            _ => None,
        };
    }
    match (entry.name, field) {
        ("beamform_incoherent", "streams") => Some(channels),
        ("beamform_incoherent", "voltage_bytes") => Some(1),
        // Lanes take neighbouring inputs.
        ("kurtosis_moments", "input_stride") => Some(2),
        ("kurtosis_moments", "channel_stride") => Some(2 * inputs),
        ("kurtosis_moments", "time_stride") => Some(2 * inputs * channels),
        ("reorder_quantise", "samples") => Some(inputs * channels * times),
        ("reorder_quantise", "scale") => Some(1_f32.to_bits().into()),
        (name, "words") if name.starts_with("reorder_shift") => Some(size.words()),
        // Rows lie next to each other.
        ("reorder_planes_words_1" | "reorder_planes_words_2", "row_stride") => Some(1),
        ("reorder_planes_words_1" | "reorder_planes_words_2", "time_stride") => {
            Some(inputs * channels)
        }
        _ => None,
    }
}

/// A field of a kernel's parameters, by its name: a size, a flag that is off, or the address of a buffer.
fn parameter(entry: &Entry, field: &Field, size: Size) -> Option<String> {
    let Size { inputs, channels, times } = size;
    let typed = |number| format!("u{}:{number}", 8 * field.bytes);
    if let Some(own) = own(entry, field.name, size) {
        return Some(typed(own));
    }
    let common = match field.name {
        "inputs" | "streams" | "beam_count" => inputs,
        "channels" => channels,
        "times" | "native_times" | "out_times" | "block_times" | "chosen" => times,
        "history_times" | "first" => times / 4,
        "rows" | "rows_of_list" => inputs * channels,
        "row_bytes" | "row_stride" | "source_stride" | "pitch" | "input_stride" => 2 * times,
        "channel_stride" => 2 * times * inputs,
        "time_stride" | "sample_bytes" | "element" | "run" => 2,
        "count" => inputs * channels * times,
        "bits" => 4,
        "rounds" | "planes" | "parts" => 1,
        "words" if field.bytes == 8 && entry.name.starts_with("limits") => {
            inputs * channels * times
        }
        "mode" | "flip" | "zero" | "reserved" | "first_shift" | "opaque_zero" | "complement"
        | "lead" => 0,
        // Beams and delays shift by nothing; time 0 is chosen.
        "beams" | "shifts" | "numbers" => return Some(format!("buffer:{BUFFER}")),
        _ if field.bytes == 8 => return Some(format!("buffer:{BUFFER},fill=1")),
        _ => return None,
    };
    Some(typed(common))
}

/// Kernels whose names hold a word, for an error.
pub fn near(word: &str) -> String {
    let names = ENTRIES.iter().map(|entry| entry.name).filter(|name| name.contains(word));
    let names: Vec<&str> = names.collect();
    if names.is_empty() { String::new() } else { format!("; these are: {}", names.join(", ")) }
}
