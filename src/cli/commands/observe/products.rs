//! Products of an observation, and their files.

use std::{
    fs::{self, File},
    io::Write,
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::SystemTime,
};

use corrust::{
    Beamformer, Device, Error, Result, beamform,
    correlate::{Kernel, Shape},
    format::{
        Timestamp,
        array::Stokes,
        npy::{Dtype, Reader, Writer},
    },
    kurtosis::Kurtosis,
    run::{BeamsOf, BlockSums, Run},
};
use toml::Spanned;

use super::{
    grid::GridTable,
    table::{Keys, Text},
};
use crate::cli::{
    commands::{
        beamform::{self as beams, BeamOptions},
        correlate::product::{Shared, VisibilityOptions, too_long},
        filterbank::{InputPowers, PowerOptions, says_all},
    },
    input::product_input::{Finish, ProductInput, needs_array, span},
    options::{flagging::block_times, run_files::output, selection::of_channels},
    terminal::{
        numbers::{count, digits, si},
        say::{tell, warn},
    },
};

/// A product that a plan asks for.
pub enum Request {
    Visibilities(VisibilityOptions),
    Beams(BeamTable),
    Grid(GridTable),
    Power(PowerOptions),
    Spectra(SpectrumOptions),
    Kurtosis(KurtosisOptions),
}

/// Beams, and whether they are steered.
#[derive(Clone, Debug, clap::Args)]
pub struct BeamTable {
    #[command(flatten)]
    beams: BeamOptions,
    /// Takes weights and shifts anew whenever their files change.
    #[arg(long)]
    steer: bool,
    /// File of the changes, a line of JSON each.
    #[arg(long, value_parser = output(), requires = "steer")]
    changes: Option<PathBuf>,
}

/// Spectra of the inputs, and their file.
#[derive(Clone, Debug, clap::Args)]
pub struct SpectrumOptions {
    #[arg(long, value_parser = output())]
    output: PathBuf,
    /// Times of a dump; without it all are one dump.
    #[arg(long)]
    integrate: Option<NonZeroU64>,
    /// Keeps a last dump of fewer times.
    #[arg(long)]
    keep_partial: bool,
}

/// Sums for the spectral kurtosis, and their file.
#[derive(Clone, Debug, clap::Args)]
pub struct KurtosisOptions {
    #[arg(long, value_parser = output())]
    output: PathBuf,
    /// Times of a block.
    #[arg(long, default_value_t = 256, value_parser = block_times)]
    times: usize,
}

/// A product that has begun.
pub struct Made {
    name: String,
    finish: Finish,
}

impl Made {
    /// Its kind and file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Completes its files, of `times` times.
    pub fn finish(self, times: u64) -> Result<String> {
        let Self { name, finish } = self;
        finish(times).map(|said| format!("{name}: {said}"))
    }
}

/// The option `--array` of a plan's array file.
fn array_option(array: Option<&Path>) -> Vec<String> {
    array.map(|path| format!("--array={}", path.display())).into_iter().collect()
}

impl Request {
    pub fn visibilities(text: Text<'_>, table: &Spanned<Keys>) -> Result<Self> {
        text.options(table, [], []).map(Self::Visibilities)
    }

    pub fn beams(text: Text<'_>, table: &Spanned<Keys>, array: Option<&Path>) -> Result<Self> {
        let mut options: BeamTable = text.options(table, array_option(array), [])?;
        if options.beams.grid.is_some() {
            return Err(text.error(
                table.span().start,
                "[[beams]]: found grid, expected weights and shifts, or a table [[grid]] with dishes",
            ));
        }
        // Only dated files use the array.
        if !options.beams.is_dated() {
            options.beams.array = None;
        }
        if options.beams.array.is_none() && !options.beams.is_dated() {
            options.beams.read_array().map_err(|error| text.located(table, error))?;
        }
        Ok(Self::Beams(options))
    }

    pub fn grid(text: Text<'_>, table: &Spanned<Keys>, array: Option<&Path>) -> Result<Self> {
        text.options::<GridTable>(table, array_option(array), [])
            .map(|grid| Self::Grid(grid.dated()))
    }

    pub fn power(text: Text<'_>, table: &Spanned<Keys>, array: Option<&Path>) -> Result<Self> {
        text.options(table, array_option(array), []).map(Self::Power)
    }

    pub fn spectra(text: Text<'_>, table: &Spanned<Keys>) -> Result<Self> {
        text.options(table, [], []).map(Self::Spectra)
    }

    pub fn kurtosis(text: Text<'_>, table: &Spanned<Keys>) -> Result<Self> {
        text.options(table, [], []).map(Self::Kurtosis)
    }

    /// Files that are read.
    pub fn reads(&self) -> Vec<PathBuf> {
        match self {
            Self::Visibilities(options) => options.selection.files().cloned().collect(),
            Self::Beams(BeamTable { beams, .. }) => {
                vec![beams.weights.clone(), beams.shifts.clone()]
            }
            Self::Grid(grid) => vec![grid.dishes.clone()],
            _ => Vec::new(),
        }
    }

    /// Files that are written.
    pub fn writes(&self) -> Result<Vec<PathBuf>> {
        Ok(match self {
            Self::Visibilities(options) => options.files().cloned().collect(),
            Self::Beams(BeamTable { beams: options, changes, .. }) => {
                let mut names = options.names(&Reader::open(&options.weights)?)?;
                names.extend(changes.clone());
                names.extend(options.incoherent.iter().chain(&options.clipped).cloned());
                names
            }
            Self::Grid(options) => vec![options.output.clone()],
            Self::Power(options) => vec![options.output.clone()],
            Self::Spectra(options) => vec![options.output.clone()],
            Self::Kurtosis(options) => vec![options.output.clone()],
        })
    }

    /// Kind and file.
    fn name(&self) -> String {
        let (kind, path) = match self {
            Self::Visibilities(options) => ("visibilities", &options.output),
            Self::Beams(options) => ("beams", &options.beams.output),
            Self::Grid(options) => ("grid", &options.output),
            Self::Power(options) => ("power", &options.output),
            Self::Spectra(options) => ("spectra", &options.output),
            Self::Kurtosis(options) => ("kurtosis", &options.output),
        };
        format!("{kind} {}", path.display())
    }

    /// The bytes that it writes and the operations that it takes, in words.
    pub fn load(&self, place: &ProductInput<'_>) -> Result<String> {
        let ProductInput { shape, .. } = place;
        let (recorded, span) = span(place.recorded, place.interval);
        let recorded = &recorded;
        let cells = (shape.inputs * shape.channels) as f64;
        let (bytes, operations) = match self {
            Self::Visibilities(options) => options.load(place, *recorded)?,
            Self::Beams(options) => {
                let (_, shape) = options.beams.begin(place)?;
                let bytes = shape.streams() * shape.beams * shape.output.bytes();
                let operations = beamform::useful_operations(&shape, *recorded);
                (bytes as f64 * *recorded as f64, operations)
            }
            Self::Grid(options) => options.load(place, *recorded)?,
            // Heaps and frames say no frequencies.
            Self::Power(options) if place.live && place.array.is_none() && options.is_dated() => {
                return Err(needs_array(&options.output));
            }
            Self::Power(options) => {
                let parameters = options.scaling.stokes.map_or(1, Stokes::count);
                let values = (parameters * options.channels(shape)?.len()) as f64;
                let inputs = shape.inputs as f64;
                (4.0 * values * *recorded as f64, 4.0 * values * inputs * *recorded as f64)
            }
            Self::Spectra(options) => {
                let length = options.integrate.map_or(*recorded, NonZeroU64::get).max(1);
                let partial = options.keep_partial && !recorded.is_multiple_of(length);
                let dumps = recorded / length + u64::from(partial);
                (dumps as f64 * 8.0 * cells, 4.0 * cells * *recorded as f64)
            }
            Self::Kurtosis(options) => {
                let blocks = recorded.div_ceil(options.times.max(1) as u64) as f64;
                (blocks * 24.0 * cells, 6.0 * cells * *recorded as f64)
            }
        };
        let pace = place.interval.map_or(String::new(), |interval| {
            let seconds = interval * *recorded as f64;
            format!(
                "; at the recording's pace {}B/s and {}op/s",
                si(bytes / seconds),
                si(operations / seconds)
            )
        });
        let name = self.name();
        let host =
            if self.reads_host_memory(place) { "; reads samples in host memory" } else { "" };
        let (bytes, operations) = (si(bytes), si(operations));
        Ok(format!("{name}: at most {bytes}B{span}, {operations}operations{pace}{host}"))
    }

    /// Whether it reads samples in host memory where others read them on a GPU: spectra of raw voltages and judged samples come
    /// back for it.
    fn reads_host_memory(&self, place: &ProductInput<'_>) -> bool {
        match self {
            Self::Power(_) => !place.gpus.is_empty(),
            // Several GPUs would each sum all samples.
            Self::Spectra(_) | Self::Kurtosis(_) => place.gpus.len() > 1,
            Self::Visibilities(_) | Self::Beams(_) | Self::Grid(_) => false,
        }
    }

    /// Bytes that it holds on the device for `times` times of samples: sums, weights, beams.
    pub fn held(&self, place: &ProductInput<'_>, times: u64) -> Result<f64> {
        let ProductInput { shape, .. } = place;
        let sums = |length: u64| {
            let entries = times.div_ceil(length.max(1)).max(1);
            entries as f64 * 24.0 * (shape.inputs * shape.channels) as f64
        };
        Ok(match self {
            Self::Visibilities(options) => options.dump_bytes(place)?,
            Self::Beams(BeamTable { beams, .. }) => {
                let weights = Reader::open(&beams.weights)?;
                let numbers: f64 = weights.shape().iter().map(|&length| length as f64).product();
                let streams: f64 =
                    weights.shape().iter().take(3).map(|&length| length as f64).product();
                numbers + streams * times as f64 * beams.encoding().bytes() as f64
            }
            Self::Grid(options) => options.held(place, times)?,
            // Powers are added on the host.
            Self::Power(_) => 0.0,
            Self::Spectra(options) => sums(options.integrate.map_or(u64::MAX, NonZeroU64::get)),
            Self::Kurtosis(options) => sums(options.times as u64),
        })
    }

    /// Begins the product: its plan, and its files; in a dry run without writing.
    pub fn begin<'a>(
        &self,
        place: &ProductInput<'_>,
        run: &mut Run<'a>,
        dry_run: bool,
    ) -> Result<Made> {
        let name = self.name();
        let finish: Finish = match self {
            Self::Visibilities(options) => {
                let (product, made) = options.begin(place, Kernel::Auto)?;
                run.add(&name, product)?;
                let (flagged, named) = (place.flagged.clone(), format!("{name}: "));
                Box::new(move |recorded| {
                    let totals = made.finish(&named, recorded, flagged.get())?;
                    Ok(count(totals.dumps, "dump"))
                })
            }
            Self::Beams(options) => {
                let steer = options.steer && !dry_run;
                add_beams(&BeamTable { steer, ..options.clone() }, &name, place, run)?
            }
            Self::Grid(options) => options.add(&name, place, run)?,
            Self::Power(options) => {
                let mut array = place.array.cloned().unwrap_or_else(|| place.said.clone());
                if options.is_dated() && place.array.is_none() {
                    says_all(&array, place.source, None)?;
                }
                if array.phase_center.is_none() {
                    array.phase_center.clone_from(&place.said.phase_center);
                    array.source.clone_from(&place.said.source);
                }
                let of = (&place.shape, place.recorded);
                let powers = InputPowers::create(options, &array, of)?;
                let files = Shared::new(powers);
                let theirs = files.clone();
                run.each(&name, move |piece| theirs.with(|powers| powers.add(piece)));
                Box::new(move |times| Ok(count(files.take().finish(times)?, "sample")))
            }
            Self::Spectra(options) => {
                let length = options.integrate.map_or(place.recorded, NonZeroU64::get);
                if length > place.recorded && !options.keep_partial {
                    return Err(too_long(&format!("--integrate {length}"), place));
                }
                let power = |sums: &[i64]| sums.iter().skip(1).step_by(3).copied().collect();
                let whole = !options.keep_partial && length < u64::MAX;
                let of = Summed { length, axes: &[], whole, unit: "dump" };
                add_sums(&options.output, &name, place, of, power, run)?
            }
            Self::Kurtosis(options) => {
                let length = options.times as u64;
                let of = Summed { length, axes: &[3], whole: false, unit: "block" };
                add_sums(&options.output, &name, place, of, <[i64]>::to_vec, run)?
            }
        };
        Ok(Made { name, finish })
    }
}

impl BeamOptions {
    /// The plan for the recording, and its shape.
    fn begin(&self, place: &ProductInput<'_>) -> Result<(Beamformer, beamform::Shape)> {
        let weights = Reader::open(&self.weights)?;
        if place.recorded == u64::MAX && (!self.is_endless() || self.incoherent.is_some()) {
            return Err(Error::invalid(
                "beams of a stream of unknown length: expected seconds or times in live, or a filterbank file, \
                 GUPPI RAW, DADA, VDIF or SPEAD, which may have any length",
            ));
        }
        let Shape { inputs, channels, encoding, .. } = place.shape;
        let streams = beams::streams(&weights, channels, inputs);
        let [_, polarisations, dishes] = streams;
        let array = place.array.unwrap_or(&place.said);
        array.check_beams([polarisations, dishes], place.polarisations)?;
        let devices = beams::BeamDevices {
            device: place.device.clone(),
            gpus: place.gpus.to_vec(),
            kernel: beamform::Kernel::Auto,
        };
        self.plan(weights, place.source, (encoding, streams), devices)
    }
}

/// Files of weights and shifts that may change while beams are made.
struct Steering {
    name: String,
    options: BeamOptions,
    source: PathBuf,
    /// Channels of the voltages.
    all: usize,
    /// Times and lengths of the files when they were last checked.
    seen: Seen,
    /// File of the changes.
    changes: Option<(PathBuf, File)>,
}

type Seen = [Option<(SystemTime, u64)>; 2];

impl Steering {
    fn of(table: &BeamTable, name: &str, place: &ProductInput<'_>) -> Result<Self> {
        let options = table.beams.clone();
        let create = |path: &PathBuf| {
            let file = File::create(path).map_err(Error::io(path, "create"))?;
            Ok((path.clone(), file))
        };
        let changes = table.changes.as_ref().map(create).transpose()?;
        let seen = Self::see(&options);
        let (source, all) = (place.source.to_owned(), place.shape.channels);
        Ok(Self { name: name.to_owned(), options, source, all, seen, changes })
    }

    /// Writes down that other weights hold from a time on.
    fn write_down(&mut self, start: u64) -> Result<()> {
        let Some((path, file)) = &mut self.changes else { return Ok(()) };
        let line = serde_json::json!({
            "time": start,
            "weights": self.options.weights,
            "shifts": self.options.shifts,
            "taken": Timestamp::now().to_string(),
        });
        writeln!(file, "{line}").map_err(Error::io(path, "write"))
    }

    fn see(options: &BeamOptions) -> Seen {
        [&options.weights, &options.shifts].map(|path| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        })
    }

    /// Reloads weights and shifts when their files have changed; with a damaged file beams stay unchanged.
    fn reload_if_changed(&mut self, plan: &mut Beamformer, start: u64) -> Result<()> {
        let seen = Self::see(&self.options);
        if seen == self.seen {
            return Ok(());
        }
        self.seen = seen;
        let shape = *plan.shape();
        let read = |weights| self.options.read(weights, (&shape, self.all), &self.source);
        let found =
            Reader::open(&self.options.weights).and_then(read).and_then(|(weights, shifts)| {
                plan.set_weights(&weights)?;
                plan.set_shifts(&shifts)
            });
        match found {
            Ok(()) => {
                tell(format_args!("{}: new weights from time {start} on", self.name));
                self.write_down(start)?;
            }
            Err(error) => warn(format_args!("{}: {error}; the weights stay", self.name)),
        }
        Ok(())
    }
}

fn add_beams(
    table: &BeamTable,
    name: &str,
    place: &ProductInput<'_>,
    run: &mut Run<'_>,
) -> Result<Finish> {
    let BeamTable { beams: options, steer, .. } = table;
    let array = place.array.filter(|_| options.array.is_some());
    if options.is_dated() && array.is_none() {
        return Err(needs_array(&options.output));
    }
    let names = options.names(&Reader::open(&options.weights)?)?;
    let (plan, shape) = options.begin(place)?;
    let all = place.shape.channels;
    let channels = options.channels(all)?;
    let array = array.map(|array| of_channels(array, all, &channels)).transpose()?;
    let length = (place.recorded as usize, place.ticks.starting_at(channels.start));
    let outputs = beams::Outputs::create(options, &shape, length, array.as_ref(), &names)?;
    let files = Shared::new(outputs);
    let theirs = files.clone();
    let mut steering = steer.then(|| Steering::of(table, name, place)).transpose()?;
    let beams = BeamsOf::new(plan, move |start, beams, times| {
        theirs.with(|outputs| outputs.put(start, beams, times))
    });
    let beams = beams.of_channels(channels).steered(move |plan, start| match &mut steering {
        Some(steering) => steering.reload_if_changed(plan, start),
        None => Ok(()),
    });
    run.add(name, beams)?;
    Ok(Box::new(move |times| {
        let clipped = files.take().finish(times)?;
        let beams = count(shape.beams, "beam");
        Ok(format!("{beams}, {} % of the samples clipped", digits(100.0 * clipped)))
    }))
}

/// Entries of a product of sums: int64 `[channel][input]` and further `axes`.
struct Summed {
    /// Times of an entry.
    length: u64,
    axes: &'static [usize],
    /// Whether times that do not fill the last entry are left out.
    whole: bool,
    unit: &'static str,
}

/// Adds a product of sums, of which `of` makes an entry.
fn add_sums(
    path: &Path,
    name: &str,
    place: &ProductInput<'_>,
    Summed { length, axes, whole, unit }: Summed,
    of: impl Fn(&[i64]) -> Vec<i64> + 'static,
    run: &mut Run<'_>,
) -> Result<Finish> {
    let Shape { inputs, channels, encoding, .. } = place.shape;
    let block = length.clamp(16, 1 << 16) as usize;
    let plan = Kurtosis::builder().encoding(encoding).block_times(block);
    // Several GPUs would each sum all samples.
    let gpu = if place.gpus.len() == 1 { place.gpus.first().cloned() } else { None };
    let plan = plan.device(Device::Cpu).gpu(gpu.clone()).build()?;
    let entry = [&[channels, inputs], axes].concat();
    let files = Shared::new((Writer::appending(path, Dtype::Int64, &entry)?, 0_u64));
    let theirs = files.clone();
    let tell = move |sums: &[i64], times: u64| {
        if whole && times < length {
            return Ok(());
        }
        theirs.with(|(file, entries)| {
            *entries += 1;
            file.append(&of(sums).iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>())
        })
    };
    run.add(name, BlockSums::new((plan, gpu), length, inputs, channels, tell))?;
    let name = name.to_owned();
    Ok(Box::new(move |times| {
        let (file, entries) = files.take();
        file.finish()?;
        let left = times.checked_rem(length).unwrap_or(0);
        if whole && left > 0 {
            warn(format_args!(
                "{name}: the last {left} of {times} times do not fill a {unit} of {length} and are left out"
            ));
        }
        Ok(count(entries, unit))
    }))
}
