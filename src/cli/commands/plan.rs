//! `corrust plan`.

use std::path::PathBuf;

use corrust::{
    Encoding, Error, Layout, Result,
    bench::{Limits, RECORD_H200, Record, Row, model::Model, predicted},
    correlate::{baselines, useful_operations},
};

use serde_json::json;

use crate::cli::options::engine::Oversampling;
use crate::cli::options::run_files::input;
use crate::cli::options::units::{BytesPerSecond, Hertz, Seconds};
use crate::cli::terminal::numbers::{count, digits, si};
use crate::cli::terminal::say::say;

/// Estimate how many GPUs an array needs, and what binds them
///
/// Channels are divided among the GPUs. Rates come from a record of `corrust bench --json`, interpolated between
/// measured sizes, or are predicted (`--gpu`). Samples come over the network and PCIe while the GPU computes, so
/// that the slowest of the three counts; correlation, beams and F-engine run one after the other on the GPU, so that
/// their times add up.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = EXAMPLES,
    mut_group("Raw", |group| group.requires("channelise")),
    mut_group("Beams", |group| group.requires("beams"))
)]
pub struct Args {
    /// Number of inputs: antennas x polarisations
    #[arg(long, value_name = "N")]
    inputs: usize,
    /// Bandwidth of an input, with its unit, as 856MHz
    #[arg(long, value_parser = Hertz::with_unit)]
    bandwidth: Hertz,
    /// Bits of a component of a channelised sample: 4 (ci4), 8 (ci8) or 16 (cf16)
    #[arg(long, default_value_t = 8)]
    bits: u8,
    /// Order of the samples: tcn, as F-engines deliver them, or cnt
    #[arg(long, default_value_t = Layout::Tcn)]
    layout: Layout,
    /// Oversampling of the channels, as 32/27
    #[arg(long, value_name = "A/B", default_value = "1/1", hide_short_help = true)]
    oversample: Oversampling,
    /// Number of channels, for the rate of the dumps
    #[arg(long, value_name = "C", requires = "dump", hide_short_help = true)]
    channels: Option<usize>,
    /// Time of a dump, as 1s
    #[arg(long, value_name = "TIME", requires = "channels", hide_short_help = true)]
    dump: Option<Seconds>,
    /// Number of beams of 4-bit voltages in each polarisation, as `corrust beamform` makes them
    #[arg(long, value_name = "B", conflicts_with = "row")]
    beams: Option<usize>,
    #[command(flatten)]
    of_beams: Beams,
    /// Include the F-engine: the GPUs make channels of raw voltages
    #[arg(long)]
    channelise: bool,
    #[command(flatten)]
    raw: Raw,
    /// Rate of the network to each GPU, as 400Gb/s or 50GB/s
    #[arg(long, value_name = "RATE", default_value = "400Gb/s")]
    network: BytesPerSecond,
    /// Largest part of the measured rates to use, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 80.0)]
    load: f64,
    /// Record of `corrust bench --json` of the GPU [default: of an NVIDIA H200]
    #[arg(long, value_name = "FILE", value_parser = input())]
    record: Option<PathBuf>,
    /// Chip whose rates are predicted, where there is no record: a100, a30, a40, h100, h200, l40s, or CHIP.json
    #[arg(long, value_name = "CHIP", conflicts_with = "record")]
    gpu: Option<String>,
    /// Print a row of a Markdown table, with this name in front
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    row: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "row")]
    json: bool,
}

/// Encoding and filter bank of raw voltages.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Raw {
    /// Bits of a real raw sample
    #[arg(long, value_name = "BITS", default_value_t = 8, hide_short_help = true)]
    raw_bits: u8,
}

/// Inputs of beams, and what is beside them.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Beams {
    /// Polarisations of an antenna
    #[arg(long, value_name = "P", default_value_t = 2, hide_short_help = true)]
    polarisations: usize,
    /// Beams alone: nothing is correlated
    #[arg(long, conflicts_with = "channels")]
    beams_only: bool,
}

const EXAMPLES: &str = "\
Examples:
  corrust plan --inputs 2048 --bandwidth 400MHz --bits 4
  corrust plan --inputs 128 --bandwidth 856MHz --network 100Gb/s --channels 4096 --dump 2s
  corrust plan --inputs 60 --bandwidth 400MHz --channelise --record all.json
  corrust plan --inputs 1024 --bandwidth 1.2GHz --bits 4 --beams 96 --beams-only
  corrust plan --inputs 256 --bandwidth 200MHz --gpu a100 --json";

/// One thing that takes a part of each GPU's second.
struct Load {
    name: &'static str,
    /// A second, of all GPUs together and of one: operations, bytes or samples.
    needed: f64,
    given: f64,
    unit: &'static str,
    /// Limit that binds it.
    binds: String,
}

impl Load {
    /// GPUs that would have nothing else to do.
    fn gpus(&self) -> f64 {
        self.needed / self.given
    }
}

/// The load that takes most GPUs.
fn slowest<'a>(loads: &[&'a Load]) -> Option<&'a Load> {
    loads.iter().copied().max_by(|a, b| a.gpus().total_cmp(&b.gpus()))
}

/// GPUs of all loads, and the load that binds: kernels run one after the other, and transfers go on meanwhile.
fn binding(loads: &[Load]) -> (f64, &Load) {
    let (computed, moved): (Vec<&Load>, Vec<&Load>) =
        loads.iter().partition(|load| matches!(load.name, CORRELATION | BEAMS | F_ENGINE));
    let computing: f64 = computed.iter().map(|load| load.gpus()).sum();
    let moving = slowest(&moved).expect("samples come from somewhere");
    match moving.gpus() > computing {
        true => (moving.gpus(), moving),
        false => (computing, slowest(&computed).expect("there is a correlation or a beam")),
    }
}

/// An estimate.
struct Of<'a> {
    record: &'a Record,
    source: &'a str,
    encoding: Encoding,
    loads: &'a [Load],
    gpus: u64,
    binding: &'a Load,
}

impl Args {
    /// Prints the estimate.
    pub fn run(self) -> Result<()> {
        let encoding = self.checked()?;
        let beams = self.dishes(encoding)?;
        let (record, source) = self.rates(encoding, beams)?;
        let loads = self.loads(&record, &source, encoding, beams)?;
        let (least, binding) = binding(&loads);
        let gpus = (least / (self.load / 100.0)).ceil().max(1.0) as u64;
        let of = Of { record: &record, source: &source, encoding, loads: &loads, gpus, binding };
        if self.json {
            self.say_json(&of);
        } else if let Some(name) = &self.row {
            self.say_row(name, &of);
        } else {
            self.say_table(&of);
        }
        Ok(())
    }

    /// Checks numbers, and returns the encoding of samples.
    fn checked(&self) -> Result<Encoding> {
        let Self { inputs, load, bits, .. } = *self;
        let fault = if inputs == 0 {
            "--inputs 0: expected at least 1".to_owned()
        } else if inputs > MOST_INPUTS {
            format!("--inputs {inputs}: expected at most {MOST_INPUTS}")
        } else if self.gpu.is_some() && inputs > MOST_PREDICTED {
            format!("--inputs {inputs}: expected at most {MOST_PREDICTED} with --gpu")
        } else if !(load > 0.0 && load <= 100.0) {
            format!("--load {load}: expected more than 0 and at most 100 %")
        } else {
            match bits {
                4 => return Ok(Encoding::Ci4),
                8 => return Ok(Encoding::Ci8),
                16 => return Ok(Encoding::Cf16),
                other => format!("--bits {other}: expected 4 (ci4), 8 (ci8) or 16 (cf16)"),
            }
        };
        Err(Error::invalid(fault))
    }

    /// The record that rates come from, and its name.
    fn rates(&self, encoding: Encoding, beams: Option<(usize, usize)>) -> Result<(Record, String)> {
        Ok(match (&self.record, &self.gpu) {
            (Some(path), _) => (Record::read(path)?, path.display().to_string()),
            (None, Some(chip)) => {
                let inputs = Some(self.inputs).filter(|_| !self.of_beams.beams_only);
                let correlation = inputs.map(|inputs| (encoding, inputs));
                let record = predicted(&Model::open(chip)?, correlation, beams, self.channelise)?;
                (record, "predictions (docs/estimates.md)".to_owned())
            }
            (None, None) => {
                let record = serde_json::from_str(RECORD_H200);
                (record.expect("the record is one"), "the record that is built in".to_owned())
            }
        })
    }

    fn say_json(&self, of: &Of<'_>) {
        let loads = of.loads.iter().map(|load| {
            json!({
                "name": load.name, "needed": load.needed, "a_gpu_gives": load.given,
                "unit": load.unit, "gpus": load.gpus(), "binds": load.binds,
            })
        });
        let plan = json!({
            "inputs": self.inputs, "beams": self.beams, "bandwidth_hz": self.bandwidth.0,
            "encoding": of.encoding.name(), "layout": self.layout.to_string(),
            "device": of.record.machine.device, "source": of.source, "load_percent": self.load,
            "loads": loads.collect::<Vec<_>>(), "gpus": of.gpus, "binds": of.binding.name,
            "limit": of.binding.binds,
        });
        say(serde_json::to_string_pretty(&plan).expect("text and numbers"));
    }

    /// Prints a row of a Markdown table.
    fn say_row(&self, name: &str, of: &Of<'_>) {
        let find = |wanted: &str| of.loads.iter().find(|load| load.name == wanted);
        let part =
            |wanted: &str| find(wanted).map_or_else(|| "-".to_owned(), |load| part_of(load.gpus()));
        let [correlation, f_engine] = [CORRELATION, F_ENGINE].map(part);
        let [network, pcie] = [NETWORK, PCIE].map(part);
        say(format_args!(
            "| {name} | {} | {}Hz | {} | {}B/s | {correlation} | {f_engine} | {network} | {pcie} | **{}** | {} |",
            self.inputs,
            si(self.bandwidth.0),
            of.encoding,
            si(find(NETWORK).map_or(0.0, |load| load.needed)),
            of.gpus,
            of.binding.binds
        ));
    }

    fn say_table(&self, of: &Of<'_>) {
        let made = self.beams.map_or_else(String::new, |beams| {
            let alone = if self.of_beams.beams_only { " alone" } else { "" };
            format!(", {}{alone}", count(beams, "beam"))
        });
        say(format_args!(
            "{} of {}Hz, {} in {}{made}, on {}s, by {}",
            count(self.inputs, "input"),
            si(self.bandwidth.0),
            of.encoding,
            self.layout,
            // The source says that it predicts.
            of.record.machine.device.trim_end_matches(" (predicted)"),
            of.source
        ));
        say(format_args!("{:14} {:>16} {:>16} {:>9}  binds", "", "needed", "a GPU gives", "GPUs"));
        for load in of.loads {
            say(format_args!(
                "{:14} {:>16} {:>16} {:>9}  {}",
                load.name,
                si(load.needed) + load.unit,
                si(load.given) + load.unit,
                part_of(load.gpus()),
                load.binds
            ));
        }
        let Load { name, binds, .. } = of.binding;
        say(format_args!(
            "{} at up to {} % of these rates: {name} binds{}",
            count(of.gpus, "GPU"),
            self.load,
            if binds == name { String::new() } else { format!(", by {binds}") }
        ));
    }

    /// Numbers of dishes and beams of each polarisation, if there are beams.
    fn dishes(&self, encoding: Encoding) -> Result<Option<(usize, usize)>> {
        let Some(beams) = self.beams else { return Ok(None) };
        let polarisations = self.of_beams.polarisations;
        let fault = if !(1..=MOST_BEAMS).contains(&beams) {
            format!("--beams {beams}: expected 1 to {MOST_BEAMS}")
        } else if encoding != Encoding::Ci4 {
            format!("--bits {}: expected 4 with --beams: rates are of 4-bit voltages", self.bits)
        } else if polarisations == 0 || !self.inputs.is_multiple_of(polarisations) {
            format!("--polarisations {polarisations}: expected a divisor of {} inputs", self.inputs)
        } else {
            return Ok(Some((self.inputs / polarisations, beams)));
        };
        Err(Error::invalid(fault))
    }

    /// All that takes time or room.
    fn loads(
        &self,
        record: &Record,
        source: &str,
        encoding: Encoding,
        beams: Option<(usize, usize)>,
    ) -> Result<Vec<Load>> {
        let lacks = |what: &str| {
            Error::invalid(format!("{source}: has no {what}: expected a record of all systems"))
        };
        let limits = Limits::of(&record.rows);
        let limit = |name: &str| limits.rate(name).ok_or_else(|| lacks(&format!("limit {name:?}")));
        let rate = self.bandwidth.0 * self.oversample.ratio();
        let samples = rate * self.inputs as f64;
        let bytes = samples * f64::from(self.bits) / 4.0;

        let mut loads = Vec::new();
        if !self.of_beams.beams_only {
            let what = if self.layout == Layout::Tcn { "from tcn" } else { "kernel" };
            let rows = record.of("correlate").filter(|row| {
                row.auto
                    && row.build.is_none()
                    && row.encoding == encoding.name()
                    && row.what == what
            });
            let (given, binds) = interpolated(rows, "N", self.inputs)
                .ok_or_else(|| lacks(&format!("correlation of {encoding} {what}")))?;
            let needed = useful_operations(self.inputs, 1, 1) * rate;
            loads.push(Load { name: CORRELATION, needed, given, unit: "op/s", binds });
        }
        if let Some((dishes, beams)) = beams {
            let (given, binds) = rate_of_beams(record, dishes, beams)
                .ok_or_else(|| lacks("beams of 4-bit voltages"))?;
            // A product of complex numbers and its sum.
            let needed = 8.0 * samples * beams as f64;
            loads.push(Load { name: BEAMS, needed, given, unit: "op/s", binds });
        }

        let mut incoming = bytes;
        if self.channelise {
            // Real samples, twice the bandwidth.
            let raw = 2.0 * self.bandwidth.0 * self.inputs as f64;
            incoming = raw * f64::from(self.raw.raw_bits) / 8.0;
            let rows = record.of("channelise");
            let rows = rows.filter(|row| row.auto && row.build.is_none() && row.what == "kernel");
            let slowest = rows.min_by(|a, b| a.items_per_second.total_cmp(&b.items_per_second));
            let row = slowest.ok_or_else(|| lacks("F-engine (corrust bench channelise)"))?;
            loads.push(Load {
                name: F_ENGINE,
                needed: raw,
                given: row.items_per_second,
                unit: "samples/s",
                binds: bound(row),
            });
        }
        let (unit, network) = ("B/s", self.network.0);
        let load = |name, needed, given, binds: &str| Load {
            name,
            needed,
            given,
            unit,
            binds: binds.to_owned(),
        };
        loads.push(load(NETWORK, incoming, network, "network"));
        loads.push(load(PCIE, incoming, limit("host to device")?, "PCIe"));
        if let (Some(channels), Some(dump)) = (self.channels, self.dump) {
            let sums = 16.0 * channels as f64 * baselines(self.inputs) as f64 / dump.0;
            loads.push(load("dumps", sums, limit("device to host")?, "PCIe"));
        }
        if let Some((_, beams)) = beams {
            // Samples of beams are of 4 bits, too: a byte each.
            let made = rate * (beams * self.of_beams.polarisations) as f64;
            loads.push(load("beams out", made, limit("device to host")?, "PCIe"));
        }
        Ok(loads)
    }
}

/// A number of GPUs, or that it is next to none.
fn part_of(gpus: f64) -> String {
    if gpus < 1e-3 { "< 0.001".to_owned() } else { digits(gpus) }
}

/// Inputs of a correlation, at most: as of a recording.
const MOST_INPUTS: usize = 1 << 24;
/// Inputs of a correlation that is predicted, at most.
const MOST_PREDICTED: usize = 1 << 14;
/// Beams, at most.
const MOST_BEAMS: usize = 1 << 16;
const CORRELATION: &str = "correlation";
const BEAMS: &str = "beams";
const F_ENGINE: &str = "F-engine";
const NETWORK: &str = "network";
const PCIE: &str = "PCIe";

/// Operations a second of beams of 4-bit voltages, and the limit that binds them. A record measures numbers of beams at one
/// number of dishes, and numbers of dishes at one number of beams: the rate of `beams` is multiplied by the ratio of the rates
/// of `dishes` and of that one number.
fn rate_of_beams(record: &Record, dishes: usize, beams: usize) -> Option<(f64, String)> {
    let rows = || {
        let rows = record.of("beamform");
        rows.filter(|row| row.auto && row.build.is_none() && row.what == "kernel")
    };
    // The number at which the other one varies most.
    let common = |key: &str| {
        let sizes: Vec<u64> = rows().filter_map(|row| row.size(key)).collect();
        let times = |size: &u64| sizes.iter().filter(|other| *other == size).count();
        sizes.iter().copied().max_by_key(times)
    };
    let (usual_dishes, usual_beams) = (common("D")?, common("B")?);
    let with = |key: &'static str, size: u64| rows().filter(move |row| row.size(key) == Some(size));
    let (rate, binds) = interpolated(with("D", usual_dishes), "B", beams)?;
    let of_dishes = |dishes| Some(interpolated(with("B", usual_beams), "D", dishes)?.0);
    Some((rate * of_dishes(dishes)? / of_dishes(usual_dishes as usize)?, binds))
}

/// Operations a second at a size that `key` names, and the limit that binds them. Between two sizes the rate
/// follows the logarithm of the size; below the least one it falls with it, as memory binds there; above the
/// largest it stays.
fn interpolated<'a>(
    rows: impl Iterator<Item = &'a Row>,
    key: &str,
    wanted: usize,
) -> Option<(f64, String)> {
    let mut sizes: Vec<(f64, &Row)> =
        rows.filter_map(|row| Some((row.size(key)? as f64, row))).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = wanted as f64;
    let above = sizes.partition_point(|(size, _)| *size < wanted);
    let (&(size, row), rate) = match (above.checked_sub(1), sizes.get(above)) {
        (None, Some(least)) => (least, least.1.useful_tops * (wanted / least.0).min(1.0)),
        (Some(below), Some(upper)) => {
            let lower = sizes[below];
            let part = (wanted / lower.0).ln() / (upper.0 / lower.0).ln();
            let rate = lower.1.useful_tops + part * (upper.1.useful_tops - lower.1.useful_tops);
            (if part < 0.5 { &sizes[below] } else { upper }, rate)
        }
        (Some(largest), None) => (&sizes[largest], sizes[largest].1.useful_tops),
        (None, None) => return None,
    };
    let binds = if wanted < size && above == 0 { "memory".to_owned() } else { bound(row) };
    Some((1e12 * rate, binds))
}

/// Limit that binds a kernel, in the words of a plan.
fn bound(row: &Row) -> String {
    match row.limit.as_ref().map(|share| &share.limit[..]) {
        Some("device copy" | "device memory") => "memory".to_owned(),
        Some("tensor") => "tensor cores".to_owned(),
        Some(limit) if limit.contains("mma") => "tensor cores".to_owned(),
        Some(other) => other.to_owned(),
        None => "computing".to_owned(),
    }
}
