//! The papers' own figures: for each paper the cases that are measured, and the panels that are drawn of their rows.
//!
//! A paper is a table: cases in the words of the command line, and for each panel its axes, its rows and their values.

use std::{collections::BTreeSet, path::Path, str::FromStr};

use clap::Parser;
use corrust::{
    Encoding, Error, Result,
    bench::{
        self, BenchDevice, Case, Limits, Record, Row, Settings, beamform::WorkPerTime, measure,
        model::Model,
    },
    correlate,
    quantise::Quantiser,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::cli::commands::bench::{
    System,
    peers::{KLAGES_TIMES, Peers},
    plot::{Axes, Scale, Series, footnote, heading, join, lines, nothing},
    table,
};
use crate::cli::options::units::Seconds;
use crate::cli::pictures::plot::{Area, COLOURS, Drawn, GREY, label, save};
use crate::cli::terminal::numbers::digits;

/// Paper whose figures are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Klages and others, "GPU Kernels for High-Speed 4-Bit Astrophysical Data Processing": fig. 4
    Klages,
    /// Sievers, "GPU Correlation": few bits, rates of 64 inputs
    Sievers,
    /// Romein, "The Tensor-Core Correlator": figs. 3 to 5
    Romein,
    /// Falcone, "AutocorrelationCUDA": sensors, lags, groups, packets
    Falcone,
    /// Smith, "CHORD 8-bit baseband beamformer": costs, eq. 34 to 38
    Smith,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Klages => "klages",
            Self::Sievers => "sievers",
            Self::Romein => "romein",
            Self::Falcone => "falcone",
            Self::Smith => "smith",
        })
    }
}

/// Cases and figures of a paper.
struct Paper {
    /// Cases on a GPU or a model of one, as arguments of `bench`.
    gpu: &'static [&'static str],
    /// Cases on a CPU.
    cpu: &'static [&'static str],
    panels: &'static [Panel],
    /// Panels beside each other.
    columns: usize,
}

/// A figure.
enum Panel {
    Lines(Lines),
    /// Highest rate of each GPU at the same number of inputs, measured or predicted.
    Generations(&'static str),
    /// Efficiency of few bits.
    Bits(&'static str),
    /// Table of costs.
    Costs(&'static str),
}

/// Values of a row that a figure shows.
type Value = fn(&Row, &Facts<'_>) -> Option<f64>;

/// Lines of values of rows.
struct Lines {
    title: &'static str,
    x: (&'static str, Scale),
    y: (&'static str, Scale),
    /// Rows that are shown.
    rows: fn(&Row) -> bool,
    /// Name of a row's line.
    name: fn(&Row) -> String,
    /// Place of a row on the first axis.
    place: fn(&Row) -> Option<f64>,
    /// Values, with what is added to the line's name: dashed where it is something.
    values: &'static [(&'static str, Value)],
    /// Lines of other programs on the same GPU.
    peers: &'static [Peer],
    /// Points of the paper, on its own GPU.
    marks: &'static [(&'static str, f64, f64)],
    /// Lines across: their names and values.
    levels: &'static [(&'static str, f64)],
    /// Reason why there are no values.
    empty: &'static str,
}

/// A line of another program.
struct Peer {
    name: &'static str,
    peer: &'static str,
    case: &'static str,
    /// Name of the size on the first axis.
    size: &'static str,
    /// Factor of its rate.
    factor: f64,
}

/// Facts that values need beside their row.
struct Facts<'a> {
    limits: &'a Limits,
    /// Seconds from a sample of the beamformer to the next.
    sample_time: f64,
}

fn size(row: &Row, name: &str) -> Option<f64> {
    row.size(name).map(|size| size as f64)
}

fn inputs(row: &Row) -> Option<f64> {
    size(row, "N")
}

fn correlator(row: &Row) -> bool {
    row.system == "correlate" && row.what == "kernel"
}

/// The correlator's own choice of kernel.
fn chosen(row: &Row) -> bool {
    correlator(row) && row.auto
}

/// Packed 4-bit samples, and a CPU's.
fn packed(row: &Row) -> bool {
    let kernels = ["packed", "packed-signed"];
    correlator(row)
        && row.encoding == "ci4"
        && (kernels.contains(&&row.kernel[..]) || row.kernel.starts_with("cpu"))
}

/// Few inputs.
fn few(row: &Row) -> bool {
    correlator(row) && row.size("N") <= Some(64)
}

fn encoding(row: &Row) -> String {
    row.encoding.clone()
}

fn kernel(row: &Row) -> String {
    row.kernel.clone()
}

fn rate(row: &Row, _: &Facts<'_>) -> Option<f64> {
    Some(row.items_per_second)
}

fn useful(row: &Row, _: &Facts<'_>) -> Option<f64> {
    Some(row.useful_tops)
}

fn per_watt(row: &Row, _: &Facts<'_>) -> Option<f64> {
    row.sustained.as_ref()?.useful_tops_per_watt
}

/// Useful operations in percent of all multiply-adds that a chip could do.
fn of_multiply_adds(row: &Row, facts: &Facts<'_>) -> Option<f64> {
    let peak = facts.limits.rate("integer multiply-add")?;
    Some(100.0 * row.useful_tops * 1e12 / peak)
}

/// The same of the multiply-adds that a kernel does: of `packed` two products each, of the others four.
fn of_instructions(row: &Row, facts: &Facts<'_>) -> Option<f64> {
    let products = if row.kernel == "packed" { 2.0 } else { 4.0 };
    of_multiply_adds(row, facts).map(|share| share / products)
}

/// Gigabytes of samples that come in a second: a byte an input.
fn input(row: &Row, _: &Facts<'_>) -> Option<f64> {
    Some(1e-9 * row.items_per_second * inputs(row)?)
}

/// Gigabytes of sums that leave in a second.
fn output(row: &Row, facts: &Facts<'_>) -> Option<f64> {
    Some(row.gigabytes_per_second - input(row, facts)?)
}

/// Percent of the time in which samples come.
fn of_real_time(row: &Row, facts: &Facts<'_>) -> Option<f64> {
    Some(100.0 / (row.items_per_second * facts.sample_time))
}

/// Bits of the parts of a kernel's samples.
fn bits(row: &Row) -> Option<f64> {
    let kernel: correlate::Kernel = row.kernel.parse().ok()?;
    let encoding = Encoding::from_str(&row.encoding).ok()?;
    Some(kernel.value_bits().map_or(4.0 * encoding.bytes() as f64, f64::from))
}

/// Kind of arithmetic of a kernel of few inputs.
fn arithmetic(row: &Row) -> String {
    match row.kernel.starts_with("packed-complex") {
        true => "a complex product a multiply-add".to_owned(),
        false => few_by(row),
    }
}

/// Name of a kernel of few inputs: tensor cores have several, by the number of inputs.
fn few_by(row: &Row) -> String {
    match &row.kernel[..] {
        name if name.starts_with("packed-complex") => name.to_owned(),
        name if name.starts_with("cpu") => format!("{}, {name}", row.encoding),
        _ => format!("{}, tensor cores", row.encoding),
    }
}

/// The autocorrelator's rows of 1024 sensors in long blocks.
fn long_blocks(row: &Row) -> bool {
    counts(row)
        && row.auto
        && size(row, "instants") >= Some(4096.0)
        && size(row, "sensors") == Some(1024.0)
}

fn counts(row: &Row) -> bool {
    row.system == "autocorrelate" && row.what == "kernel"
}

/// Whether a row has the instrument's 10 groups of 32 lags.
fn instrument(row: &Row) -> bool {
    counts(row) && size(row, "groups") == Some(10.0) && size(row, "lags") == Some(32.0)
}

fn form(row: &Row) -> String {
    match row.size("groups") {
        Some(1) => "1 group: every lag by itself".to_owned(),
        groups => format!("{} groups", groups.unwrap_or_default()),
    }
}

fn beams(row: &Row) -> bool {
    row.system == "beamform" && row.what == "kernel" && row.auto
}

/// Encodings of a beamformer's row.
fn voltages(row: &Row) -> String {
    match &row.encoding[..] {
        "" => "ci4 by ci8".to_owned(),
        encodings => encodings.to_owned(),
    }
}

const NO_MARKS: &[(&str, f64, f64)] = &[];
/// Instants that the autocorrelation's instrument delivers a second.
const TARGET: &[(&str, f64)] = &[("625 k: one every 1.6 us", 625e3)];
const NO_SIZES: &str = "no results of these sizes";
const NO_POWER: &str = "no power was measured";

/// Peers of the correlator on a GPU, in TOPS.
const CORRELATORS: &[Peer] = &[
    Peer { name: "TCC ci8", peer: "tcc", case: "correlate ci8", size: "N", factor: 1e-12 },
    Peer { name: "TCC cf16", peer: "tcc", case: "correlate cf16", size: "N", factor: 1e-12 },
    Peer { name: "TCC ci4", peer: "tcc", case: "correlate ci4", size: "N", factor: 1e-12 },
    Peer { name: "xGPU ci8", peer: "xgpu", case: "correlate ci8", size: "N", factor: 1e-12 },
];

const KLAGES: Paper = Paper {
    gpu: &["correlate --encoding ci4 --kernel packed,packed-signed \
            --inputs 32,64,128,256,512,1024,2048,4096,8192"],
    cpu: &["correlate --encoding ci4 --kernel auto --inputs 32,64,128,256,512,1024,2048"],
    columns: 3,
    panels: &[
        Panel::Lines(Lines {
            title: "(fig. 4, upper)  Matrices per second",
            x: ("inputs N", Scale::Log),
            y: ("matrices N × N / s", Scale::Log),
            rows: packed,
            name: kernel,
            place: inputs,
            values: &[("", rate)],
            peers: &[],
            marks: &[("Klages et al., AMD R9 280X", 2048.0, 331_800.0)],
            levels: &[],
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(fig. 4, middle)  Efficiency",
            x: ("inputs N", Scale::Log),
            y: ("% of the chip's multiply-adds", Scale::Linear),
            rows: packed,
            name: kernel,
            place: inputs,
            values: &[("", of_multiply_adds), (", without packing", of_instructions)],
            peers: &[],
            marks: &[("Klages et al., AMD R9 280X", 2048.0, 100.0 * KLAGES_TIMES)],
            levels: &[],
            empty: "rates of integer multiply-adds are a GPU's",
        }),
        Panel::Lines(Lines {
            title: "(fig. 4, lower)  Input and output",
            x: ("inputs N", Scale::Log),
            y: ("GB/s", Scale::Log),
            rows: packed,
            name: kernel,
            place: inputs,
            values: &[(", samples in", input), (", sums out", output)],
            peers: &[],
            marks: NO_MARKS,
            levels: &[],
            empty: NO_SIZES,
        }),
    ],
};

const SIEVERS: Paper = Paper {
    gpu: &[
        "correlate --encoding ci4 --inputs 16,32,48,64 \
         --kernel packed-complex-1,packed-complex-2,packed-complex-3,packed-complex",
        "correlate --encoding ci4,ci8,cf16 --inputs 16,32,48,64 --kernel auto",
    ],
    cpu: &["correlate --encoding ci4,ci8,cf16 --inputs 16,32,48,64 --kernel auto"],
    columns: 3,
    panels: &[
        Panel::Lines(Lines {
            title: "(a)  Rate of 64 inputs, by bits",
            x: ("bits of a real or imaginary part", Scale::Log),
            y: ("matrices 64 × 64 / s", Scale::Log),
            rows: |row| correlator(row) && row.size("N") == Some(64),
            name: arithmetic,
            place: bits,
            values: &[("", rate)],
            peers: &[],
            marks: &[
                ("the talk, in shared memory (20 to 30 M)", 3.0, 25e6),
                ("the talk, in registers, answers wrong", 3.0, 90e6),
                ("the talk, floats", 32.0, 7e6),
            ],
            levels: &[],
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(b)  Rate against inputs",
            x: ("inputs N", Scale::Linear),
            y: ("matrices N × N / s", Scale::Log),
            rows: few,
            name: few_by,
            place: inputs,
            values: &[("", rate)],
            peers: &[],
            marks: NO_MARKS,
            levels: &[],
            empty: NO_SIZES,
        }),
        Panel::Bits("(c)  Efficiency of few bits"),
    ],
};

/// Inputs in steps of 32, as the sawtooth needs them.
const ROMEIN: Paper = Paper {
    gpu: &[
        "correlate --encoding ci4,ci8,cf16 --kernel auto --inputs 32,64,96,128,160,192,224,256,288,320,352,\
            384,416,448,480,512,544,576,608,640,672,704,736,768,800,832,864,896,928,960,992,1024,1536,2048",
    ],
    cpu: &["correlate --encoding ci4,ci8,cf16 --kernel auto --inputs 32,64,96,128,160,192,224,256"],
    columns: 3,
    panels: &[
        Panel::Lines(Lines {
            title: "(fig. 3)  Performance",
            x: ("inputs N (receivers × 2)", Scale::Linear),
            y: ("useful TOPS (cf16: TFLOPS)", Scale::Linear),
            rows: chosen,
            name: encoding,
            place: inputs,
            values: &[("", useful)],
            peers: CORRELATORS,
            marks: NO_MARKS,
            levels: &[],
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(fig. 4)  Energy efficiency",
            x: ("inputs N (receivers × 2)", Scale::Linear),
            y: ("useful TOPS / W, sustained", Scale::Linear),
            rows: chosen,
            name: encoding,
            place: inputs,
            values: &[("", per_watt)],
            peers: &[],
            marks: NO_MARKS,
            levels: &[],
            empty: NO_POWER,
        }),
        Panel::Generations("(fig. 5)  Generations"),
    ],
};

const FALCONE: Paper = Paper {
    gpu: &[
        "autocorrelate --kernel auto --sensors 64,256,1024,4096,16384 --instants 65536",
        "autocorrelate --kernel auto --sensors 1024 --instants 65536 --lags 8,16,48,64,128,256",
        "autocorrelate --kernel auto --sensors 1024 --instants 65536 --groups 1,2,4,6,8,12,14,16",
        "autocorrelate --kernel auto --sensors 1024 --instants 65536 --groups 1 --lags 8,100,320,1000,3200,10000",
        "autocorrelate --kernel auto,packets,bin-groups --sensors 1024 --instants 25,50,100,200,400,1600,3200",
    ],
    cpu: &[
        "autocorrelate --kernel auto --sensors 64,256,1024,4096 --instants 4096",
        "autocorrelate --kernel auto --sensors 1024 --instants 4096 --lags 8,16,64,128",
        "autocorrelate --kernel auto --sensors 1024 --instants 4096 --groups 1,2,4,6,8,12",
        "autocorrelate --kernel auto --sensors 1024 --instants 4096 --groups 1 --lags 8,100,320,1000",
        "autocorrelate --kernel auto --sensors 1024 --instants 25,50,100,200,400,1600",
    ],
    columns: 2,
    panels: &[
        Panel::Lines(Lines {
            title: "(a)  Against sensors: 10 groups of 32 lags",
            x: ("sensors", Scale::Log),
            y: ("instants / s", Scale::Log),
            rows: |row| instrument(row) && row.auto && size(row, "instants") >= Some(4096.0),
            name: kernel,
            place: |row| size(row, "sensors"),
            values: &[("", rate)],
            peers: &[],
            marks: NO_MARKS,
            levels: TARGET,
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(b)  Against lags of a group: 1024 sensors",
            x: ("lags of a group", Scale::Log),
            y: ("instants / s", Scale::Log),
            rows: |row| long_blocks(row) && [Some(1), Some(10)].contains(&row.size("groups")),
            name: form,
            place: |row| size(row, "lags"),
            values: &[("", rate)],
            peers: &[],
            marks: NO_MARKS,
            levels: TARGET,
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(c)  Against groups of 32 lags: 1024 sensors",
            x: ("groups", Scale::Linear),
            y: ("instants / s", Scale::Log),
            rows: |row| long_blocks(row) && row.size("lags") == Some(32),
            name: kernel,
            place: |row| size(row, "groups"),
            values: &[("", rate)],
            peers: &[],
            marks: NO_MARKS,
            levels: TARGET,
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(d)  Against the instants of a call: 1024 sensors",
            x: ("instants of a call", Scale::Log),
            y: ("instants / s", Scale::Log),
            rows: |row| instrument(row) && row.size("sensors") == Some(1024),
            name: kernel,
            place: |row| size(row, "instants"),
            values: &[("", rate)],
            peers: &[Peer {
                name: "AutocorrelationCUDA, this GPU",
                peer: "autocorrelation_cuda",
                case: "autocorrelate, kernel",
                size: "packet",
                factor: 1.0,
            }],
            marks: &[("AutocorrelationCUDA, its document", 100.0, 666e3)],
            levels: TARGET,
            empty: NO_SIZES,
        }),
    ],
};

const SMITH: Paper = Paper {
    gpu: &[
        "beamform --dishes 512 --beams 16,32,64,96,128 --weights ci8,ci4 --voltages ci4,ci8,cf16",
        "beamform --dishes 64,128,256,1024 --beams 96 --weights ci8,ci4 --voltages ci4,ci8,cf16",
    ],
    cpu: &[
        "beamform --kernel auto --dishes 512 --beams 16,32,64,96,128 --weights ci8,ci4 --voltages ci4,ci8,cf16",
        "beamform --kernel auto --dishes 64,128,256,1024 --beams 96 --weights ci8,ci4 --voltages ci4,ci8,cf16",
    ],
    columns: 3,
    panels: &[
        Panel::Costs("(section 7)  Costs of D = 512, B = 96"),
        Panel::Lines(Lines {
            title: "(a)  Against beams: 512 dishes",
            x: ("beams B", Scale::Linear),
            y: ("% of real time", Scale::Log),
            rows: |row| beams(row) && row.size("D") == Some(512),
            name: voltages,
            place: |row| size(row, "B"),
            values: &[("", of_real_time)],
            peers: &[],
            marks: &[("the note, A40, B = 96", 96.0, 6.3)],
            levels: &[],
            empty: NO_SIZES,
        }),
        Panel::Lines(Lines {
            title: "(b)  Against dishes: 96 beams",
            x: ("dishes D", Scale::Log),
            y: ("% of real time", Scale::Log),
            rows: |row| beams(row) && row.size("B") == Some(96),
            name: voltages,
            place: |row| size(row, "D"),
            values: &[("", of_real_time)],
            peers: &[],
            marks: &[("the note, A40, D = 512", 512.0, 6.3)],
            levels: &[],
            empty: NO_SIZES,
        }),
    ],
};

impl Name {
    fn paper(self) -> &'static Paper {
        match self {
            Self::Klages => &KLAGES,
            Self::Sievers => &SIEVERS,
            Self::Romein => &ROMEIN,
            Self::Falcone => &FALCONE,
            Self::Smith => &SMITH,
        }
    }
}

/// Arguments of `bench` in a table.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Arguments {
    #[command(subcommand)]
    system: System,
}

/// The cases of a paper, of the correlator the kernels alone.
pub fn cases(name: Name, place: &BenchDevice) -> Result<Vec<Box<dyn Case>>> {
    let paper = name.paper();
    let lists = if place.gpu.is_some() { paper.gpu } else { paper.cpu };
    let mut cases = Vec::new();
    for list in lists {
        let Arguments { system } = Arguments::try_parse_from(list.split_whitespace())
            .map_err(|error| Error::invalid(format!("--paper {name}: {list}: {error}")))?;
        cases.extend(super::cases(Some(&system), place, true)?);
    }
    Ok(cases)
}

/// Width and height of a panel, and height of the line below all of them.
const PANEL: (u32, u32) = (640, 560);
const FOOT: u32 = 40;

/// Draws the figures of a paper to the file `path`, where samples of beams are `sample_time` apart.
pub fn draw(path: &Path, record: &Record, name: Name, sample_time: Seconds) -> Result<()> {
    let paper = name.paper();
    let limits = Limits::of(&record.rows);
    let facts = Facts { limits: &limits, sample_time: sample_time.0 };
    let system = if name == Name::Falcone { "autocorrelate" } else { "correlate" };
    let system = if name == Name::Smith { "beamform" } else { system };
    if record.of(system).all(|row| row.build.is_some()) {
        return Err(Error::file(
            path,
            format!("nothing to plot of {name}: expected results of `bench {system}`"),
        ));
    }
    // Predictions and counts first: they may fail.
    let generations = match paper.panels.iter().any(|p| matches!(p, Panel::Generations(_))) {
        true => generations(record)?,
        false => (0, Vec::new()),
    };
    let costs = match paper.panels.iter().any(|p| matches!(p, Panel::Costs(_))) {
        true => Some(WorkPerTime::counted(DISHES, BEAMS)?),
        false => None,
    };
    let rows = paper.panels.len().div_ceil(paper.columns);
    let size = (PANEL.0 * paper.columns as u32, PANEL.1 * rows as u32 + FOOT);
    save(path, size, |root| {
        let (figures, foot) = root.split_vertically(size.1 as i32 - FOOT as i32);
        for (panel, area) in paper.panels.iter().zip(figures.split_evenly((rows, paper.columns))) {
            match panel {
                Panel::Lines(of) => of.draw(&area, record, &facts)?,
                Panel::Generations(title) => draw_generations(&area, title, &generations)?,
                Panel::Bits(title) => draw_bits(&area, title)?,
                Panel::Costs(title) => draw_costs(&area, title, costs.as_ref(), record, &facts)?,
            }
        }
        let predicted = record.rows.iter().any(|row| row.seconds.is_predicted());
        let note = match predicted {
            true => "; triangles are predictions, bars their range",
            false => "",
        };
        footnote(&foot, &format!("{}{note}", table::describe(&record.machine)))
    })
}

impl Lines {
    fn draw(&self, area: &Area<'_>, record: &Record, facts: &Facts<'_>) -> Drawn {
        let mut all: Vec<Series> = Vec::new();
        let rows = record.rows.iter().filter(|row| row.build.is_none() && (self.rows)(row));
        for row in rows {
            let Some(x) = (self.place)(row) else { continue };
            for (suffix, value) in self.values {
                let Some(y) = value(row, facts) else { continue };
                let hollow = *suffix != self.values[0].0;
                let name = format!("{}{suffix}", (self.name)(row));
                let series = join(&mut all, name, (x, y), hollow);
                series.predicted = row.seconds.is_predicted();
                if series.predicted {
                    // Rates go with the inverse of times, shares of real time with them: the range is as far to
                    // either side, as a ratio.
                    let ratio = row.seconds.most / row.seconds.median;
                    series.ranges.push((x, y / ratio, y * ratio));
                }
            }
        }
        if all.is_empty() {
            return nothing(area, self.title, self.empty);
        }
        for series in &mut all {
            // A size that two cases have counts once.
            series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            series.points.dedup_by_key(|point| point.0);
        }
        for peer in self.peers {
            let Some(peers) = Peers::of(&record.machine.device) else { break };
            let measured = peers.results(peer.peer, peer.case);
            let points = measured.map(|one| (one.size(peer.size) as f64, one.rate * peer.factor));
            let mut points: Vec<(f64, f64)> = points.collect();
            points.dedup_by_key(|point| point.0);
            let colour = COLOURS[(all.len()) % COLOURS.len()];
            all.push(Series::line(peer.name.to_owned(), colour, false, points));
        }
        let xs = all.iter().flat_map(|series| &series.points).map(|point| point.0);
        let (first, last) = xs.fold((f64::INFINITY, 0.0_f64), |(a, b), x| (a.min(x), b.max(x)));
        for &(name, level) in self.levels {
            let ends = vec![(first, level), (last, level)];
            all.push(Series::line(name.to_owned(), GREY, true, ends));
        }
        for &(name, x, y) in self.marks {
            let colour = COLOURS[all.len() % COLOURS.len()];
            let line = Series::line(name.to_owned(), colour, false, vec![(x, y)]);
            all.push(Series { joined: false, ..line });
        }
        lines(area, &Axes { title: self.title, x: self.x, y: self.y, names: &[] }, &all)
    }
}

/// Encodings of Romein's figures.
const ENCODINGS: [Encoding; 3] = [Encoding::Ci4, Encoding::Ci8, Encoding::Cf16];

/// GPUs that are predicted where there is no record of them, in the order of their years.
const CHIPS: [&str; 5] = ["a100", "a40", "l40s", "h100", "h200"];

/// Best rates of a GPU at a number of inputs, in useful TOPS.
struct Best {
    device: String,
    predicted: bool,
    /// By encoding: rate, and its range.
    rates: Vec<(Encoding, f64, (f64, f64))>,
}

impl Best {
    fn of(record: &Record, inputs: u64) -> Self {
        let rate = |encoding: &Encoding| {
            let name = encoding.to_string();
            let rows = record
                .rows
                .iter()
                .filter(|row| timed(row) && row.encoding == name && row.size("N") == Some(inputs));
            let best = rows.max_by(|a, b| a.useful_tops.total_cmp(&b.useful_tops))?;
            let of = |seconds: f64| best.useful_operations / seconds * 1e-12;
            Some((*encoding, best.useful_tops, (of(best.seconds.most), of(best.seconds.least))))
        };
        Self {
            device: record.machine.device.clone(),
            predicted: record.rows.iter().any(|row| row.seconds.is_predicted()),
            rates: ENCODINGS.iter().filter_map(rate).collect(),
        }
    }

    /// Predicted rates of a chip.
    fn predicted(chip: &str, inputs: u64) -> Result<Self> {
        let place = BenchDevice::of_model(Model::open(chip)?);
        let options = bench::correlate::Options {
            encodings: ENCODINGS.to_vec(),
            inputs: vec![inputs as usize],
            kernels: vec![correlate::Kernel::Auto],
            alone: true,
            ..Default::default()
        };
        let limits = Limits::default();
        let sustain = std::time::Duration::ZERO;
        let settings = Settings { repeats: 1, sustain, meter: None, limits: &limits };
        let mut rows = Vec::new();
        for case in bench::correlate::cases(&options, &place) {
            rows.extend(measure(case.as_ref(), std::slice::from_ref(&place), &settings)?);
        }
        Ok(Self::of(&Record { machine: bench::Facts::new(&place, None), rows }, inputs))
    }
}

/// Whether a row is one of fig. 5.
fn timed(row: &Row) -> bool {
    let encodings = ENCODINGS.map(|encoding| encoding.to_string());
    correlator(row) && row.build.is_none() && encodings.contains(&row.encoding)
}

/// Numbers of inputs of a record's rows.
fn sizes(record: &Record) -> BTreeSet<u64> {
    record.rows.iter().filter(|row| timed(row)).filter_map(|row| row.size("N")).collect()
}

/// Best rates of this record's device, of the records that the program has, and of models of the others, all of the same
/// number of inputs: the most that all records have, or this one has.
fn generations(record: &Record) -> Result<(u64, Vec<Best>)> {
    let this = &record.machine.device;
    let known = [bench::RECORD_H100, bench::RECORD_H200].map(|text| {
        serde_json::from_str::<Record>(text).map_err(|error| Error::invalid(error.to_string()))
    });
    let known = known.into_iter().collect::<Result<Vec<Record>>>()?;
    let chip = Model::chip_of(this);
    let own = sizes(record);
    let shared =
        own.iter().rev().find(|inputs| known.iter().all(|one| sizes(one).contains(inputs)));
    let Some(&inputs) = shared.or(own.last()) else { return Ok((0, Vec::new())) };
    let mut all = Vec::new();
    for name in CHIPS {
        let recorded = known.iter().find(|one| Model::chip_of(&one.machine.device) == Some(name));
        all.push(match recorded {
            _ if chip == Some(name) => Best::of(record, inputs),
            Some(recorded) => Best::of(recorded, inputs),
            None => Best::predicted(name, inputs)?,
        });
    }
    if chip.is_none_or(|chip| !CHIPS.contains(&chip)) {
        all.push(Best::of(record, inputs));
    }
    Ok((inputs, all))
}

fn draw_generations(area: &Area<'_>, title: &str, (inputs, all): &(u64, Vec<Best>)) -> Drawn {
    let title = &format!("{title}, N = {inputs}");
    let mut series: Vec<Series> = Vec::new();
    for (encoding, colour) in ENCODINGS.iter().zip(COLOURS) {
        for predicted in [false, true] {
            let word = if predicted { ", predicted" } else { ", measured" };
            let mut line = Series::line(format!("{encoding}{word}"), colour, false, Vec::new());
            (line.joined, line.predicted) = (false, predicted);
            let chosen = all.iter().enumerate().filter(|(_, best)| best.predicted == predicted);
            for (place, best) in chosen {
                let found = best.rates.iter().filter(|rate| rate.0 == *encoding);
                for &(_, rate, (least, most)) in found {
                    line.points.push((place as f64, rate));
                    if predicted {
                        line.ranges.push((place as f64, least, most));
                    }
                }
            }
            if !line.points.is_empty() {
                series.push(line);
            }
        }
    }
    // Without the maker and the memory.
    let name = |best: &Best| match Model::chip_of(&best.device) {
        Some(chip) => chip.to_uppercase(),
        None => best.device.trim_start_matches("NVIDIA ").chars().take(16).collect(),
    };
    if series.is_empty() {
        return nothing(area, title, NO_SIZES);
    }
    let names: Vec<String> = all.iter().map(name).collect();
    let y = ("useful TOPS (cf16: TFLOPS)", Scale::Linear);
    lines(area, &Axes { title, x: ("GPU", Scale::Linear), y, names: &names }, &series)
}

/// Efficiency of 1 to 4 bits: the talk's, and of an optimal step.
fn draw_bits(area: &Area<'_>, title: &str) -> Drawn {
    let talk = [65.0, 85.0, 96.0, 99.0];
    let places = || (1..).map(f64::from);
    let mut computed = Vec::new();
    for bits in 1..=4 {
        computed.push((f64::from(bits), 100.0 * Quantiser::optimal(bits)?.efficiency()));
    }
    let computed = Series::line("computed, optimal step".to_owned(), COLOURS[0], false, computed);
    let points = places().zip(talk).collect();
    let talk = Series::line("the talk".to_owned(), COLOURS[1], false, points);
    let x = ("bits of a real or imaginary part", Scale::Linear);
    let y = ("signal to noise, % of unquantised", Scale::Linear);
    lines(area, &Axes { title, x, y, names: &[] }, &[computed, Series { joined: false, ..talk }])
}

/// Size of the note's costs.
const DISHES: usize = 512;
const BEAMS: usize = 96;
/// Streams of the note: 16 channels of 2 polarisations.
const STREAMS: f64 = 32.0;
/// Prefixes of the note are binary.
const GIBI: f64 = (1_u64 << 30) as f64;

/// A cost of the note for a time of one channel and polarisation, and the rate that it assumes of an A40.
struct Cost {
    name: &'static str,
    note: f64,
    counted: fn(&WorkPerTime) -> f64,
    rate: f64,
}

/// Costs of eq. 34 to 38 with `(W_b, W_d) = (6, 4)` warps.
const COSTS: [Cost; 5] = [
    Cost {
        name: "device memory, bytes (34)",
        note: (DISHES + BEAMS) as f64,
        counted: |work| work.device_bytes,
        rate: 500.0 * GIBI,
    },
    Cost {
        name: "shared memory, bytes (35)",
        note: (DISHES + 6 * DISHES + 2 * 4 * 4 * BEAMS) as f64,
        counted: |work| work.shared_bytes,
        rate: 8700.0 * GIBI,
    },
    Cost {
        name: "tensor operations (36)",
        note: (8 * DISHES * BEAMS) as f64,
        counted: |work| work.tensor_operations,
        rate: 300.0 * 1024.0 * GIBI,
    },
    Cost {
        name: "shuffles (37)",
        note: (BEAMS / 4 * 192) as f64 / 128.0,
        counted: |work| work.shuffles,
        rate: 2300.0 * GIBI,
    },
    Cost {
        name: "integer operations (38)",
        note: (4 * BEAMS * 15) as f64,
        counted: |work| work.integer_operations,
        rate: 17.0 * 1024.0 * GIBI,
    },
];

fn draw_costs(
    area: &Area<'_>,
    title: &str,
    counted: Option<&WorkPerTime>,
    record: &Record,
    facts: &Facts<'_>,
) -> Drawn {
    heading(area, title)?;
    let Some(counted) = counted else { return Ok(()) };
    let right = label(15).pos(Pos::new(HPos::Right, VPos::Top));
    let left = label(15).pos(Pos::new(HPos::Left, VPos::Top));
    let columns = [330, 425, 520, 615];
    let mut y = 70;
    let mut row = |name: &str, cells: [&str; 4]| -> Drawn {
        area.draw_text(name, &left, (24, y))?;
        for (cell, x) in cells.into_iter().zip(columns) {
            area.draw_text(cell, &right, (x, y))?;
        }
        y += 30;
        Ok(())
    };
    row("", ["the note", "counted", "the note", "counted"])?;
    row("of a time, channel, polarisation", ["", "", "% of A40", "% of A40"])?;
    let share = |work: f64, cost: &Cost| 100.0 * work * STREAMS / facts.sample_time / cost.rate;
    let mut sums = [0.0; 2];
    for cost in &COSTS {
        let work = [cost.note, (cost.counted)(counted)];
        let shares = work.map(|work| share(work, cost));
        sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        let cell = |value: f64| if value == 0.0 { "0".to_owned() } else { digits(value) };
        let [a, b] = work.map(cell);
        let [c, d] = shares.map(cell);
        row(cost.name, [&a, &b, &c, &d])?;
    }
    let [note, ours] = sums.map(digits);
    row("sum", ["", "", &note, &ours])?;
    row("", ["", "", "", ""])?;
    let timed = |row: &&Row| {
        beams(row)
            && row.encoding.is_empty()
            && (row.size("D"), row.size("B")) == (Some(DISHES as u64), Some(BEAMS as u64))
    };
    if let Some(found) = record.rows.iter().find(timed) {
        let word = if found.seconds.is_predicted() { "predicted" } else { "measured" };
        row(&format!("time of {} here, {word}, % of real time", found.kernel), ["", "", "", ""])?;
        let share = of_real_time(found, facts).unwrap_or_default();
        let of = |seconds: f64| digits(share * seconds / found.seconds.median);
        let text = match found.seconds.is_predicted() {
            true => {
                let (least, most) = (of(found.seconds.least), of(found.seconds.most));
                format!("{} ({least} to {most})", digits(share))
            }
            false => digits(share),
        };
        row("", ["", "", "", &text])?;
    }
    let small = label(13).pos(Pos::new(HPos::Left, VPos::Top));
    for (line, text) in [
        "counted: kernel mma in the simulator, without what a block does once, and without its shifts",
        "percent: of the rates that the note assumes of an A40, one after the other",
    ]
    .into_iter()
    .enumerate()
    {
        area.draw_text(text, &small, (24, 480 + 24 * line as i32))?;
    }
    Ok(())
}
