//! `corrust bench`: choice of cases, and use of the results.

mod ingest;
mod page;
mod papers;
mod peers;
pub mod plot;
pub mod table;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use corrust::{
    Correlator, Device, Encoding, Error, Result, autocorrelate, beamform,
    bench::{
        self, BenchDevice, Case, Change, Facts, Limits, Meter, Record, Row, Settings, changes,
        measure, model::Model,
    },
    correlate,
    device::{self, Kernels},
    format::read_text,
};

use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, all};
use crate::cli::options::units::Seconds;
use crate::cli::pictures::plot as pictures;
use crate::cli::terminal::numbers::digits;
use crate::cli::terminal::say::{say, warn};

/// Time the kernels against the limits of the chip
///
/// Answers are checked in the same run. Without a system: the chip's limits and all systems. Where there is no GPU the CPU backends are
/// measured. Times are medians between GPU events (on the CPU, of a clock) after a warm-up; buffers rotate through
/// more than twice the L2 cache; kernels of one case alternate.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    system: Option<System>,
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Columns:
  spread   half of the range that holds the middle half of the times
  TOPS     10^12 useful operations a second: redundant work and padding never count
  GB/s     bytes that must move at least (input and output once) a second
  limit    the time that the binding limit of the chip alone asks for, as a part of the time taken
  % of real time  of the beamformer: time taken, in percent of the time in which its samples come
  W, TOPS/W, MHz   mean power, efficiency and clock of a run of --sustain seconds

Examples:
  corrust bench                                     everything
  corrust bench limits                              what the chip can do
  corrust bench correlate --inputs 256,2048 --encoding ci8 --kernel wgmma-192,mma-128
  corrust bench beamform --against old.ptx          this build and another's kernels, in turns
  corrust bench --json new.json --against old.json
  corrust bench report new.json --plot bench.svg --page docs/performance.md
  corrust bench ingest --sockets 1,2,4 --rate 1     packets that are received on loopback, beside spead2
  corrust bench --tune mine.json                    which kernels are quickest on this GPU
  corrust bench correlate --device model:a100       predicted times, no GPU needed
  corrust bench --paper romein --plot romein.svg    the figures of a paper, of this GPU
  corrust correlate x.npy -o v.npy --tuning mine.json

Exit codes: 0 done, 1 something got slower than --against by more than the noise, 2 bad input, or an
answer that differs from the CPU's.";

#[derive(Debug, clap::Args)]
struct Common {
    /// auto, cuda, cuda:1, cpu, sim, or model:CHIP for predictions of a chip that is not at hand: a100, a30, a40,
    /// h100, h200, l40s, or a file CHIP.json
    #[arg(long, global = true, default_value_t = On::Device(Device::Auto))]
    device: On,
    /// Measurements that count
    #[arg(long, global = true, default_value_t = 9)]
    repeats: usize,
    /// Seconds to run the kernels that auto takes, or those named, on a GPU for their sustained speed and
    /// power, without a number 20, in which a chip gets as warm as it will; `limits` alone run three times as long
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_value_t = 0.7,
        default_missing_value = "20"
    )]
    sustain: f64,
    /// File to write the results and the machine's facts to
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with a file that --json wrote, or with a file or folder of PTX whose kernels alternate with this
    /// build's
    #[arg(long, global = true, value_name = "PATH", hide_short_help = true)]
    against: Option<PathBuf>,
    /// File to draw figures to, in .svg or .png: of the kernels that auto takes, or of those named by --kernel; with
    /// --paper that paper's
    #[arg(long, global = true, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Measure the cases of a paper's figures, for --plot; with `report`, draw a record's
    #[arg(long, global = true, value_enum, value_name = "PAPER")]
    paper: Option<papers::Name>,
    /// Measure what kernels are chosen by on this GPU, and write its table to a file, for --tuning or
    /// CORRUST_TUNING
    #[arg(long, global = true, value_name = "FILE")]
    tune: Option<PathBuf>,
    /// Markdown page whose table between the lines `<!-- bench -->` and `<!-- /bench -->` is replaced
    #[arg(long, global = true, value_name = "FILE.md", hide_short_help = true)]
    page: Option<PathBuf>,
    #[command(flatten)]
    existing: Existing,
}

/// Device whose times are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
enum On {
    Device(Device),
    /// A chip whose times are predicted, by its name or file.
    Model(String),
}

impl std::str::FromStr for On {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix("model:") {
            Some(chip) => Ok(Self::Model(chip.to_owned())),
            None => text.parse().map(Self::Device),
        }
    }
}

impl std::fmt::Display for On {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Device(device) => device.fmt(f),
            Self::Model(chip) => write!(f, "model:{chip}"),
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum System {
    /// Measure the limits of the GPU: tensor cores, integer arithmetic, memories, copies
    Limits {
        /// Limits to measure, spaces as `-`: `wgmma-s8,device-copy`; by default all
        #[arg(long, value_delimiter = ',')]
        limit: Vec<String>,
    },
    /// Time the correlator over numbers of inputs
    ///
    /// `kernel`: the kernel alone, on time-contiguous samples in device memory, all values equally likely.
    /// `adding`: the same, added to the sums of the runs before, as all but an integration's first.
    /// `integration`: the same till 98,304 times are summed, and the sums dumped to device memory.
    /// `gaussian`: on noise as telescopes have it, which takes less power. `from tcn`: from samples
    /// in the order of packets in device memory, corner turn included. `masked`: the same, where a sixteenth
    /// is flagged, inputs for blocks of 256 times. `from host`: from tcn samples in host memory to sums in
    /// device memory, copies included. `page-locked`: the same from page-locked memory. Useful operations
    /// are 8 N(N+1)/2 C T.
    Correlate {
        /// Numbers of inputs
        #[arg(long, value_delimiter = ',')]
        inputs: Option<Vec<usize>>,
        /// Numbers of channels; by default one, about as many as make the work of 20 channels of 2048 inputs
        #[arg(long, value_delimiter = ',')]
        channels: Vec<usize>,
        /// Times; by default 3072, on a CPU fewer if channels are not given and inputs many
        #[arg(long)]
        times: Option<usize>,
        /// Encodings
        #[arg(long, value_delimiter = ',')]
        encoding: Option<Vec<Encoding>>,
        /// Kernels, for the encodings that they take; by default all that the device runs
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<correlate::Kernel>,
    },
    /// Time the beamformer over numbers of dishes and beams: 16 channels of 2 polarisations
    ///
    /// `kernel`: voltages and beams in device memory. `from host`: from host memory and back, copies
    /// included. `page-locked`: the same from page-locked memory. Useful operations are 8 B D P F T.
    Beamform {
        /// Dishes; by default 512, and some others at 96 beams
        #[arg(long, value_delimiter = ',')]
        dishes: Option<Vec<usize>>,
        /// Beams; by default 96, and some others at 512 dishes
        #[arg(long, value_delimiter = ',')]
        beams: Option<Vec<usize>>,
        /// Times; by default 32768 on a GPU, 256 on a CPU
        #[arg(long)]
        times: Option<usize>,
        /// Encodings of weights: ci8, ci4; those of cf16 voltages are cf16
        #[arg(long, value_delimiter = ',')]
        weights: Option<Vec<Encoding>>,
        /// Encodings of voltages: ci4, ci8, cf16
        #[arg(long, value_delimiter = ',')]
        voltages: Option<Vec<Encoding>>,
        /// Encoding of the beams: ci4 or ci8
        #[arg(long, default_value_t = Encoding::Ci4)]
        output_encoding: Encoding,
        /// Kernels; by default all that the device runs
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<beamform::Kernel>,
        /// Time from a sample to the next, of which the column `% of real time` gives the part taken; by default CHORD's
        #[arg(long, value_name = "TIME", default_value = table::CHORD_SAMPLE_TIME)]
        sample_time: Seconds,
    },
    /// Time the autocorrelator over numbers of sensors, groups and lags
    ///
    /// `kernel`: counts in device memory. `from host`: from host memory to sums; packets of 100
    /// instants, too. `page-locked`: from page-locked memory. Useful operations are a multiplication and an
    /// addition for every lag of every bin.
    Autocorrelate {
        /// Numbers of sensors
        #[arg(long, value_delimiter = ',')]
        sensors: Option<Vec<usize>>,
        /// Instants of a call; by default as many as make 2^30 counts on a GPU, 2^25 on a CPU, and packets of 100
        /// and 400
        #[arg(long, value_delimiter = ',')]
        instants: Vec<usize>,
        /// Groups of bins; by default 10
        #[arg(long, value_delimiter = ',')]
        groups: Option<Vec<usize>>,
        /// Lags of a group; by default 32. With --groups 1 every lag is summed by itself
        #[arg(long, value_delimiter = ',')]
        lags: Option<Vec<usize>>,
        /// Kernels; by default all that the device runs
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<autocorrelate::Kernel>,
    },
    /// Time the F-engine over numbers of channels: raw samples to `ci8` spectra in device memory
    ///
    /// Useful operations are 2 P a raw sample and 5 log2 Z + 10 a channel.
    Channelise {
        /// Numbers of inputs
        #[arg(long, value_delimiter = ',')]
        inputs: Option<Vec<usize>>,
        /// Numbers of channels
        #[arg(long, value_delimiter = ',')]
        channels: Option<Vec<usize>>,
        /// Taps
        #[arg(long, value_delimiter = ',')]
        taps: Option<Vec<usize>>,
        /// Raw samples of all inputs; by default 2^30 on a GPU, 2^22 on a CPU
        #[arg(long)]
        samples: Option<usize>,
        /// Encodings of raw samples
        #[arg(long, value_delimiter = ',')]
        encoding: Option<Vec<corrust::samples::RawEncoding>>,
        /// Kernels; by default all that the device runs
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<corrust::channelise::Kernel>,
    },
    /// Time the filter bank of subchannels: 4 taps, samples and subchannels in device memory
    ///
    /// Useful operations are 16 + 5 log2 U a sample.
    Upchannelise {
        /// Numbers of inputs
        #[arg(long, value_delimiter = ',')]
        inputs: Option<Vec<usize>>,
        /// Channels
        #[arg(long)]
        channels: Option<usize>,
        /// Subchannels of a channel
        #[arg(long, value_delimiter = ',')]
        factors: Option<Vec<usize>>,
        /// Times; by default 32768 on a GPU, 256 on a CPU
        #[arg(long)]
        times: Option<usize>,
        /// Encodings of samples, and of their subchannels
        #[arg(long, value_delimiter = ',')]
        encoding: Option<Vec<Encoding>>,
        /// Kernels; by default all that the device runs
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<corrust::upchannelise::Kernel>,
    },
    /// Time beams on a grid of 24 x 24 places, 512 of which have a dish: 2 polarisations, powers of 40 times in f16
    ///
    /// Voltages and powers in device memory. Useful operations are 5 log2 4 M^2 + 4 a beam, time and polarisation.
    Grid {
        /// Places along both axes of a grid
        #[arg(long, value_delimiter = ',')]
        places: Option<Vec<usize>>,
        /// Frequency channels; by default 256
        #[arg(long)]
        channels: Option<usize>,
        /// Blocks of 40 times; by default 51 on a GPU, 1 on a CPU
        #[arg(long)]
        blocks: Option<usize>,
        /// Encodings of voltages
        #[arg(long, value_delimiter = ',')]
        encoding: Option<Vec<Encoding>>,
        /// Kernels; by default all that the device runs
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<beamform::grid::Kernel>,
    },
    /// Time the corner turns, unpacking, delays, sums of the spectral kurtosis and the quantiser on a GPU
    Reorder {
        /// Numbers of inputs
        #[arg(long, value_delimiter = ',')]
        inputs: Option<Vec<usize>>,
        /// Times
        #[arg(long)]
        times: Option<usize>,
        /// Encodings
        #[arg(long, value_delimiter = ',')]
        encoding: Option<Vec<Encoding>>,
    },
    /// Measure receivers of packets on loopback: recvmmsg alone, corrust serve's, and spead2's where Python has it
    ///
    /// `recvmmsg alone` throws packets away: the least that a receiver does. The others give whole heaps; corrust's are
    /// in chunks in the order that the correlator reads, and compared with what was sent: in the host's memory, and with
    /// --device, or where there is a GPU, in the GPU's. Core s/GB is the time that receiving threads take of a core for a
    /// gigabyte.
    Ingest(ingest::Args),
    /// Print, draw or compare files of --json, measuring nothing
    Report {
        /// Files of --json from one machine; the last one counts for cases that several have
        #[arg(required = true)]
        records: Vec<PathBuf>,
    },
}

/// Most inputs that are measured, and most samples of a case.
const MOST_INPUTS: usize = 1 << 16;
const MOST_SAMPLES: usize = 1 << 38;

impl Args {
    /// Runs the benchmark. The code is 1 if something got slower.
    pub fn run(self) -> Result<u8> {
        self.check()?;
        if let Some(System::Ingest(ingest)) = &self.system {
            let gpu = match &self.common.device {
                On::Device(device) => device.gpu()?,
                On::Model(_) => None,
            };
            return ingest.run(self.common.repeats, gpu.as_ref()).map(|()| 0);
        }
        let records: &[PathBuf] = match &self.system {
            Some(System::Report { records }) => records,
            _ => &[],
        };
        let files = RunFiles::default().reads(records).reads(&self.common.against);
        let files = files
            .writes(&self.common.json)
            .writes(&self.common.tune)
            .writes_as(&self.common.plot, pictures::ENDINGS);
        files.updates(&self.common.page).check(self.common.existing)?;
        let page = self.common.page.as_deref().map(page::Page::read).transpose()?;
        let against = self.common.against.as_deref().map(Against::read).transpose()?;
        let record = match &self.system {
            Some(System::Report { records }) => {
                if matches!(against, Some(Against::Kernels { .. })) {
                    return Err(Error::invalid(
                        "--against: a report measures nothing, expected a file that --json wrote",
                    ));
                }
                let record = Record::read_all(records)?;
                table::machine(&record.machine);
                let mut table = table::Table::new(self.sample_time());
                record.rows.iter().for_each(|row| table.row(row));
                record
            }
            system => {
                let places = self.places(against.as_ref())?;
                let record = self.measure(system.as_ref(), &places)?;
                if let Some(path) = &self.common.tune {
                    bench::tune::table(&places[0], &record.machine, &record.rows)?.write(path)?;
                }
                record
            }
        };
        all([
            self.common.json.as_ref().map_or(Ok(()), |path| record.write(path)),
            self.common.plot.as_ref().map_or(Ok(()), |path| match self.common.paper {
                Some(paper) => papers::draw(path, &record, paper, self.sample_time()),
                None => plot::draw(path, &record, self.names_kernels()),
            }),
            page.map_or(Ok(()), |page| page.redraw(&record)),
        ])?;
        let slower = against.is_some_and(|against| against.finds_slower(&record));
        Ok(u8::from(slower))
    }

    /// Refuses options that cannot be measured, before anything is printed.
    fn check(&self) -> Result<()> {
        if matches!(self.system, Some(System::Report { .. })) {
            let measuring = ["device", "repeats", "sustain", "tune"];
            given::refuse(&measuring, "a report measures nothing, expected it without")?;
        }
        if matches!(self.system, Some(System::Ingest(_))) {
            let others = ["sustain", "tune", "json", "against", "plot", "page"];
            given::refuse(&others, "rates of packets are printed alone, expected it without")?;
            if let On::Model(chip) = &self.common.device {
                return Err(Error::invalid(format!(
                    "--device model:{chip}: a model receives no packets, expected a device"
                )));
            }
        }
        if self.common.tune.is_some() {
            given::refuse(&["sustain"], "kernels are chosen by short runs, expected no --tune")?;
        }
        if matches!(self.common.device, On::Model(_)) {
            given::refuse(
                &["repeats", "sustain", "page"],
                "a model predicts and measures nothing, expected it without",
            )?;
            if matches!(self.system, Some(System::Limits { .. })) {
                return Err(Error::invalid(
                    "limits: a model's rates come from its chip's file, expected another system",
                ));
            }
        }
        if let Some(paper) = self.common.paper {
            self.check_paper(paper)?;
        }
        if self.common.repeats == 0 {
            return Err(Error::invalid("--repeats: expected 1 or more, found 0"));
        }
        if !(0.0..=60.0).contains(&self.common.sustain) {
            let found = self.common.sustain;
            return Err(Error::invalid(format!(
                "--sustain: expected 0 to 60 seconds, found {found}"
            )));
        }
        if self.common.tune.is_some() && (self.system.is_some() || self.common.against.is_some()) {
            return Err(Error::invalid(
                "--tune: measures all that kernels are chosen by, expected neither a system nor --against",
            ));
        }
        let sizes: Vec<(&str, Vec<usize>)> = match &self.system {
            Some(System::Correlate { inputs, channels, times, .. }) => vec![
                ("--inputs", inputs.clone().unwrap_or_default()),
                ("--channels", channels.clone()),
                ("--times", times.iter().copied().collect()),
            ],
            Some(System::Beamform { dishes, beams, times, .. }) => vec![
                ("--dishes", dishes.clone().unwrap_or_default()),
                ("--beams", beams.clone().unwrap_or_default()),
                ("--times", times.iter().copied().collect()),
            ],
            Some(System::Autocorrelate { sensors, instants, groups, lags, .. }) => vec![
                ("--sensors", sensors.clone().unwrap_or_default()),
                ("--instants", instants.clone()),
                ("--groups", groups.clone().unwrap_or_default()),
                ("--lags", lags.clone().unwrap_or_default()),
            ],
            Some(System::Channelise { inputs, channels, taps, samples, .. }) => vec![
                ("--inputs", inputs.clone().unwrap_or_default()),
                ("--channels", channels.clone().unwrap_or_default()),
                ("--taps", taps.clone().unwrap_or_default()),
                ("--samples", samples.iter().copied().collect()),
            ],
            Some(System::Upchannelise { inputs, channels, factors, times, .. }) => vec![
                ("--inputs", inputs.clone().unwrap_or_default()),
                ("--channels", channels.iter().copied().collect()),
                ("--factors", factors.clone().unwrap_or_default()),
                ("--times", times.iter().copied().collect()),
            ],
            Some(System::Grid { places, channels, blocks, .. }) => vec![
                ("--places", places.clone().unwrap_or_default()),
                ("--channels", channels.iter().copied().collect()),
                ("--blocks", blocks.iter().copied().collect()),
            ],
            Some(System::Reorder { inputs, times, .. }) => vec![
                ("--inputs", inputs.clone().unwrap_or_default()),
                ("--times", times.iter().copied().collect()),
            ],
            _ => Vec::new(),
        };
        let mut samples = 1_usize;
        for (name, sizes) in &sizes {
            if sizes.contains(&0) {
                return Err(Error::invalid(format!("{name}: expected 1 or more, found 0")));
            }
            // Products of inputs are as many as pairs of them.
            let most = if *name == "--inputs" { MOST_INPUTS } else { MOST_SAMPLES };
            let largest = sizes.iter().copied().max().unwrap_or(1);
            if largest > most {
                return Err(Error::invalid(format!("{name} {largest}: expected at most {most}")));
            }
            if !["--samples", "--groups", "--lags", "--factors"].contains(name) {
                samples = samples.saturating_mul(largest);
            }
        }
        if let Some(System::Beamform { output_encoding, .. }) = &self.system
            && !matches!(output_encoding, Encoding::Ci4 | Encoding::Ci8)
        {
            return Err(Error::invalid(format!(
                "--output-encoding {output_encoding}: expected ci4 or ci8"
            )));
        }
        match samples <= MOST_SAMPLES {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "sizes of {samples} samples in all: expected at most {MOST_SAMPLES}"
            ))),
        }
    }

    /// Refuses options that do not go with a paper.
    fn check_paper(&self, paper: papers::Name) -> Result<()> {
        let wrong = match &self.system {
            Some(System::Report { .. }) if self.common.plot.is_none() => {
                "draws a record's figures to --plot FILE, expected a file"
            }
            None | Some(System::Report { .. }) if self.common.tune.is_none() => {
                return match self.common.device {
                    On::Device(Device::Sim) => Err(Error::invalid(format!(
                        "--paper {paper}: times of the simulator mean nothing, expected --device cpu, cuda or model:CHIP"
                    ))),
                    _ => Ok(()),
                };
            }
            _ => "chooses what is measured, expected neither a system nor --tune",
        };
        Err(Error::invalid(format!("--paper {paper}: {wrong}")))
    }

    /// Whether the correlator's kernels were named.
    fn names_kernels(&self) -> bool {
        matches!(&self.system, Some(System::Correlate { kernel, .. }) if !kernel.is_empty())
    }

    /// Time from a sample of the beamformer to the next.
    fn sample_time(&self) -> Seconds {
        match self.system {
            Some(System::Beamform { sample_time, .. }) => sample_time,
            _ => table::CHORD_SAMPLE_TIME.parse().expect("a time with its unit"),
        }
    }

    /// Measures the chosen cases, and prints the results.
    fn measure(&self, system: Option<&System>, places: &[BenchDevice]) -> Result<Record> {
        let place = &places[0];
        let cases = match (&self.common.tune, self.common.paper) {
            (Some(_), _) => bench::tune::cases(place)?,
            (None, Some(paper)) => papers::cases(paper, place)?,
            (None, None) => cases(system, place, false)?,
        };
        let meter = meter(place);
        let machine = Facts::new(place, meter.as_ref());
        self.announce(place, &machine)?;

        let mut rows = Vec::new();
        let mut table = table::Table::new(self.sample_time());
        let limits_alone = matches!(system, Some(System::Limits { .. }));
        let sustain = if self.common.tune.is_some() { 0.0 } else { self.common.sustain };
        let sustain = Duration::from_secs_f64(sustain);
        let unknown = Limits::default();
        let settings = |limits, sustain| Settings {
            repeats: self.common.repeats,
            sustain,
            meter: meter.as_ref(),
            limits,
        };
        // Before a system is measured the chip is, briefly; in the simulator, times mean nothing.
        let no_limits = place.simulated() || place.model.is_some() || self.common.tune.is_some();
        if limits_alone || !no_limits {
            let whole = limits_alone || (system.is_none() && self.common.paper.is_none());
            let longer = match system {
                Some(System::Limits { .. }) => 3 * sustain,
                None if whole => sustain,
                _ => Duration::ZERO,
            };
            let settings = settings(&unknown, longer);
            let places = if limits_alone { places } else { &places[..1] };
            for case in limits(system, place)? {
                for row in measure(case.as_ref(), places, &settings)? {
                    if whole {
                        table.row(&row);
                    }
                    rows.push(row);
                }
            }
        }
        if let Some(model) = &place.model {
            rows.extend(bench::model_limits(model));
        }
        let limits = Limits::of(&rows);
        let settings = settings(&limits, sustain);
        for case in cases {
            let measured = match measure(case.as_ref(), places, &settings) {
                // A smaller GPU still has the other cases.
                Err(error @ Error::OutOfMemory { .. }) => {
                    warn(format_args!("{} {}: left out: {error}", case.system(), case.label()));
                    continue;
                }
                measured => measured?,
            };
            for row in measured {
                table.row(&row);
                rows.push(row);
            }
        }
        Ok(Record { machine, rows })
    }

    /// The device, and the same with the kernels of another build.
    fn places(&self, against: Option<&Against>) -> Result<Vec<BenchDevice>> {
        let device = match &self.common.device {
            On::Device(device) => *device,
            On::Model(chip) => {
                let mut places = vec![BenchDevice::of_model(Model::open(chip)?)];
                if let Some(Against::Kernels { path, kernels }) = against {
                    let other = BenchDevice::of_model(Model::with_kernels(chip, kernels)?);
                    places.push(BenchDevice { build: Some(path.display().to_string()), ..other });
                }
                return Ok(places);
            }
        };
        let mut places = vec![BenchDevice { gpu: device.gpu()?, ..BenchDevice::default() }];
        if let Some(Against::Kernels { path, kernels }) = against {
            if places[0].gpu.is_none() {
                return Err(Error::file(path, "its kernels need a GPU, and this is the CPU"));
            }
            let gpu = device.open_with(kernels)?;
            let build = Some(path.display().to_string());
            places.push(BenchDevice { gpu: Some(gpu), build, model: None });
        }
        Ok(places)
    }

    /// Prints the device that is measured, and why it is the CPU.
    fn announce(&self, place: &BenchDevice, machine: &Facts) -> Result<()> {
        if self.common.device == On::Device(Device::Auto)
            && let (None, Err(reason)) = (&place.gpu, device::cuda::count())
        {
            say(format_args!("{reason}: the CPU backends are measured"));
        }
        table::machine(machine);
        if place.model.is_some() {
            say("All times are predicted (docs/estimates.md), with the range of the prediction.");
        }
        if place.gpu.is_none() {
            let cpu = Correlator::builder(1, 1).device(Device::Cpu).build()?;
            say(format_args!("{}", cpu.device_name()));
        }
        Ok(())
    }
}

/// Meter of a GPU's power, if it has one.
pub fn meter(place: &BenchDevice) -> Option<Meter> {
    let gpu = place.gpu.as_ref().filter(|_| !place.simulated() && place.model.is_none())?;
    Meter::open(&gpu.facts().uuid).map_err(warn).ok()
}

/// The limits asked for.
fn limits(system: Option<&System>, place: &BenchDevice) -> Result<Vec<Box<dyn Case>>> {
    let mut cases = bench::limits::cases(place);
    if let Some(System::Limits { limit }) = system
        && !limit.is_empty()
    {
        let name = |case: &dyn Case| case.label().replace(' ', "-");
        let known: Vec<String> = cases.iter().map(|case| name(case.as_ref())).collect();
        if let Some(unknown) = limit.iter().find(|name| !known.contains(name)) {
            return Err(Error::invalid(format!(
                "--limit {unknown}: expected some of {}",
                known.join(", ")
            )));
        }
        cases.retain(|case| limit.contains(&name(case.as_ref())));
    }
    Ok(cases)
}

/// The cases of one system, or of all; of the correlator with `alone` the kernels alone.
fn cases(system: Option<&System>, place: &BenchDevice, alone: bool) -> Result<Vec<Box<dyn Case>>> {
    Ok(match system {
        None => bench::cases(place),
        Some(System::Limits { .. } | System::Ingest(_) | System::Report { .. }) => Vec::new(),
        Some(System::Correlate { inputs, channels, times, encoding, kernel }) => {
            let usual = bench::correlate::Options::default();
            let options = bench::correlate::Options {
                encodings: encoding.clone().unwrap_or(usual.encodings),
                inputs: inputs.clone().unwrap_or(usual.inputs),
                channels: channels.clone(),
                times: *times,
                kernels: kernel.clone(),
                compare_at: None,
                alone,
            };
            mention_misfits(&options)?;
            bench::correlate::cases(&options, place)
        }
        Some(System::Beamform {
            dishes,
            beams,
            times,
            weights,
            voltages,
            output_encoding,
            kernel,
            ..
        }) => {
            let sizes = beamform_sizes(dishes.as_deref(), beams.as_deref());
            let usual = bench::beamform::Options::default();
            let options = bench::beamform::Options {
                sizes,
                times: *times,
                weights: weights.clone().unwrap_or(usual.weights),
                voltages: voltages.clone().unwrap_or(usual.voltages),
                output: *output_encoding,
                kernels: kernel.clone(),
            };
            let cases = bench::beamform::cases(&options, place);
            if cases.is_empty() {
                return Err(Error::invalid("--weights cf16: expected --voltages cf16 with them"));
            }
            cases
        }
        Some(System::Autocorrelate { sensors, instants, groups, lags, kernel }) => {
            let usual = bench::autocorrelate::Options::default();
            let options = bench::autocorrelate::Options {
                sensors: sensors.clone().unwrap_or(usual.sensors),
                instants: instants.clone(),
                groups: groups.clone().unwrap_or(usual.groups),
                lags: lags.clone().unwrap_or(usual.lags),
                kernels: kernel.clone(),
            };
            bench::autocorrelate::cases(&options, place)
        }
        Some(System::Channelise { inputs, channels, taps, samples, encoding, kernel }) => {
            let usual = bench::channelise::Options::default();
            let options = bench::channelise::Options {
                inputs: inputs.clone().unwrap_or(usual.inputs),
                channels: channels.clone().unwrap_or(usual.channels),
                taps: taps.clone().unwrap_or(usual.taps),
                samples: *samples,
                encodings: encoding.clone().unwrap_or(usual.encodings),
                kernels: kernel.clone(),
            };
            bench::channelise::cases(&options, place)
        }
        Some(System::Upchannelise { inputs, channels, factors, times, encoding, kernel }) => {
            let usual = bench::upchannelise::Options::default();
            let options = bench::upchannelise::Options {
                inputs: inputs.clone().unwrap_or(usual.inputs),
                channels: channels.unwrap_or(usual.channels),
                factors: factors.clone().unwrap_or(usual.factors),
                times: *times,
                encodings: encoding.clone().unwrap_or(usual.encodings),
                kernels: kernel.clone(),
            };
            bench::upchannelise::cases(&options, place)
        }
        Some(System::Grid { places, channels, blocks, encoding, kernel }) => {
            let usual = bench::grid::Options::default();
            let options = bench::grid::Options {
                sizes: places.clone().unwrap_or(usual.sizes),
                channels: channels.unwrap_or(usual.channels),
                blocks: *blocks,
                encodings: encoding.clone().unwrap_or(usual.encodings),
                kernels: kernel.clone(),
            };
            bench::grid::cases(&options, place)
        }
        Some(System::Reorder { inputs, times, encoding }) => {
            let usual = bench::reorder::Options::default();
            let options = bench::reorder::Options {
                encodings: encoding.clone().unwrap_or(usual.encodings),
                inputs: inputs.clone().unwrap_or(usual.inputs),
                times: times.unwrap_or(usual.times),
            };
            bench::reorder::cases(&options, place)
        }
    })
}

/// Dishes and beams: all pairs of those named, of which there is one where only the other has a name.
fn beamform_sizes(dishes: Option<&[usize]>, beams: Option<&[usize]>) -> Vec<(usize, usize)> {
    if dishes.is_none() && beams.is_none() {
        return bench::beamform::Options::default().sizes;
    }
    let beams = beams.unwrap_or(&[96]);
    let pairs = |&dishes: &usize| beams.iter().map(move |&beams| (dishes, beams));
    dishes.unwrap_or(&[512]).iter().flat_map(pairs).collect()
}

/// Says which of the kernels named do not take which of the encodings.
fn mention_misfits(options: &bench::correlate::Options) -> Result<()> {
    let mut fits = options.kernels.is_empty();
    let mut misfits = Vec::new();
    for &kernel in &options.kernels {
        for &encoding in &options.encodings {
            match kernel.takes(encoding) {
                true => fits = true,
                false => misfits.push(format!("{kernel} with {encoding}")),
            }
        }
    }
    match (fits, misfits.is_empty()) {
        (false, _) => Err(Error::invalid(format!(
            "--kernel: {}: no such samples are taken, expected a kernel that takes one of --encoding",
            misfits.join(", ")
        ))),
        (true, true) => Ok(()),
        (true, false) => {
            warn(format_args!("left out, as such samples are not taken: {}", misfits.join(", ")));
            Ok(())
        }
    }
}

/// Object of a comparison.
enum Against {
    /// An earlier run.
    Record { path: PathBuf, record: Box<Record> },
    /// Another build's kernels.
    Kernels { path: PathBuf, kernels: Kernels },
}

impl Against {
    /// Prints the changes in `record`; returns whether something got slower.
    fn finds_slower(self, record: &Record) -> bool {
        match self {
            Self::Record { path, record: before } => {
                if before.machine.device != record.machine.device {
                    warn(format_args!(
                        "{}: made on {}, this is {}: slower and quicker mean little",
                        path.display(),
                        before.machine.device,
                        record.machine.device
                    ));
                }
                compare(&path, &before.rows, &record.rows, false)
            }
            Self::Kernels { path, .. } => {
                let (before, after): (Vec<Row>, Vec<Row>) =
                    record.rows.iter().cloned().partition(|row| row.build.is_some());
                compare(&path, &before, &after, true)
            }
        }
    }

    fn read(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            let text = read_text(path)?;
            if text.trim_start().starts_with('{') {
                let record = Box::new(Record::read(path)?);
                return Ok(Self::Record { path: path.to_owned(), record });
            }
            if !text.contains(".entry") {
                return Err(Error::file(
                    path,
                    "expected a file that --json wrote, or PTX with kernels",
                ));
            }
        }
        Ok(Self::Kernels { path: path.to_owned(), kernels: Kernels::read(path)? })
    }
}

/// Prints the changes; returns whether something got slower.
fn compare(path: &Path, before: &[Row], after: &[Row], turns: bool) -> bool {
    let (changes, missing) = changes(before, after, turns);
    say(format_args!("\nagainst {}:", path.display()));
    for what in &missing {
        say(format_args!("  {what}: not measured this time"));
    }
    let mut quick = changes.iter().filter(|change| change.quicker()).peekable();
    let mut slow = changes.iter().filter(|change| change.slower()).peekable();
    let slower = slow.peek().is_some();
    let same = quick.peek().is_none() && !slower;
    for (word, changes) in
        [("quicker", &mut quick as &mut dyn Iterator<Item = &Change>), ("slower", &mut slow)]
    {
        for change in changes {
            say(format_args!(
                "  {word}: {}: {} ms, was {} ms ({:+.1} %, noise {:.1} %)",
                change.what,
                digits(change.after.median * 1e3),
                digits(change.before.median * 1e3),
                100.0 * (change.ratio() - 1.0),
                100.0 * change.noise()
            ));
        }
    }
    match changes.len() {
        0 if turns => say("  no case launches its kernels"),
        0 => say("  nothing that both have measured"),
        count if same => say(format_args!("  {count} measurements, all the same within the noise")),
        count => say(format_args!("  {count} measurements compared")),
    }
    slower
}
