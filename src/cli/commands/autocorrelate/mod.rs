//! `corrust autocorrelate`.

mod filtered;
mod pairs;
mod pattern;
pub mod read;
pub mod tables;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use corrust::{
    Autocorrelator, Devices, Error, Result,
    autocorrelate::{Amount, Blocks, Builder, Errors, Kernel, Scheme, Shape, State, Sums},
    format::{
        Recording,
        npy::{Dtype, Writer},
        tttr::SYNC,
    },
    photons::{self, Arrived, Bursts, CountShape, DETECTORS, Gate, Photons, Trace},
    run::{Reader, Run, block_times},
};
use pairs::{Grid, Pair, Pairs};
use pattern::{PatternArg, gate, moment, pattern};
use tables::{Curves, TABLES, TRACES, pycorrfit_files};

use crate::cli::options::given;
use crate::cli::options::run_files::{Existing, RunFiles, all, input, output};
use crate::cli::options::units::{Hertz, Seconds};
use crate::cli::pictures::plot;
use crate::cli::terminal::numbers::{self, count, digits, si};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{note, tell, warn};

/// Autocorrelate photons or their counts: multi-tau curves
///
/// Sums of products at lags that are spread over decades.
///
/// Photons are a PTU, PT2, PT3, HT2 or HT3 file of PicoQuant's, Becker & Hickl's SPC or Photon-HDF5, whose channels become sensors, or NumPy files of arrival
/// times, uint64 or int64 [photon], one for each channel. Counts are a NumPy file, whole numbers of 0 to 65535 of any type [T][sensor],
/// of which NaN in a floating one leaves its instant out, or an HDF5 file whose dataset "data" has sensors last, as BrightEyes-MCS writes them. The output is a NumPy file, uint64 [sensor][group][lag]: A_k[c] = sum over m of Z_k[m] Y_k,c[m], bins of 2^k
/// samples, lag S (2^k - 1) + c 2^k samples. Sums are exact and the same on every device.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// PTU, PT2, PT3, HT2, HT3, SPC or Photon-HDF5 file; NumPy file of counts, whole numbers [T][sensor], or [T] of one sensor, - for the standard
    /// input; HDF5 file of counts; or NumPy files of arrival times, uint64 or int64 [photon], one for each channel
    #[arg(required = true, value_name = "IN", value_parser = input())]
    inputs: Vec<PathBuf>,
    /// NumPy file to write the sums to, - for the standard output
    #[arg(short, long, value_name = "G.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Groups of bins, each twice as long as in the group before: 1 to 24 [default: 10]
    #[arg(long, value_name = "G")]
    groups: Option<usize>,
    /// Lags of a group: 2 to 65536, an even number in the classic scheme [default: 32]
    #[arg(long, value_name = "S")]
    lags: Option<usize>,
    /// Scheme of lags: bin-groups, or classic: lags 0..=S, then S/2 for every doubling, as hardware correlators and
    /// Python's multipletau have them; the output is then uint64 [sensor][point] [default: bin-groups]
    #[arg(long, hide_short_help = true)]
    scheme: Option<Scheme>,
    /// Cross-correlate sensors A and B, B delayed, instead of autocorrelating all; may be repeated
    #[arg(long, value_name = "A,B")]
    pair: Vec<Pair>,
    /// Cross-correlate neighbours of an array (right, left, below, above), or all pairs, both ways
    #[arg(long, value_enum, conflicts_with = "pair", hide_short_help = true)]
    pairs: Option<Pairs>,
    /// Columns and rows of the sensors' array, as 5x5 [default: as many of both, or one row]
    #[arg(long, value_name = "WxH", requires = "pairs", hide_short_help = true)]
    grid: Option<Grid>,
    /// Length of a sample, a number with ns, us, ms or s, as 1.6us; for photons it is rounded to whole units of their
    /// file
    #[arg(long, value_name = "TIME", default_value = "1.6us")]
    dwell: Seconds,
    /// Number of blocks of the stream for error bars, 2 or more: columns in --curves, weights in --pycorrfit, bars in
    /// --plot
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(2..=1_000_000), conflicts_with = "resume")]
    blocks: Option<u64>,
    /// File for the normalised g(tau), .csv or .npy: lag in seconds, mean over all curves, every curve
    ///
    /// CSV: a column each. NumPy: float64 [column][point]. With --blocks, standard errors of the same
    /// columns follow, then each curve without one block after the other (mean_without_0, ...), from which corrust fit
    /// has its uncertainties. Values without counts are empty, or NaN.
    #[arg(long, value_name = "FILE", value_parser = output())]
    curves: Option<PathBuf>,
    /// File of g(tau) - 1 for PyCorrFit; of several curves, a file each, named after it
    ///
    /// With --blocks, the standard errors are its weights. The count-rate trace is in it, too.
    #[arg(long, value_name = "FILE.csv", value_parser = output(), hide_short_help = true)]
    pycorrfit: Option<PathBuf>,
    /// Draw the mean g(tau) on a logarithmic axis, to a file in .svg or .png
    #[arg(long, value_name = "FILE", value_parser = output())]
    plot: Option<PathBuf>,
    /// Continue the stream whose state was saved in this file
    #[arg(long, value_name = "STATE", value_parser = input(),
          conflicts_with_all = ["groups", "lags", "scheme", "pair", "pairs"], hide_short_help = true)]
    resume: Option<PathBuf>,
    /// Save the state of the stream to this file, to be resumed
    #[arg(long, value_name = "STATE", value_parser = output(), hide_short_help = true)]
    save: Option<PathBuf>,
    /// Device: auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim; cuda:0,cuda:1, cuda:all or sim,sim:
    /// several GPUs share the sensors or pairs
    #[arg(long, default_value_t, help_heading = "Device")]
    device: Devices,
    /// Kernel: auto; of a GPU bin-groups, packets or tensor-cores; of a CPU counts, or times: photons by their arrival
    /// times, which are quicker where most instants have none
    #[arg(long, default_value_t = Kernel::Auto, hide_short_help = true, help_heading = "Device", hide_short_help = true)]
    kernel: Kernel,
    #[command(flatten)]
    photons: PhotonArgs,
}

/// Options for photons.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Photons")]
struct PhotonArgs {
    /// Channels of a file that has them, each a sensor, in this order; sync is the sync input in T2 [default: all
    /// that have photons]
    #[arg(long, value_name = "C,C", value_delimiter = ',', value_parser = channel)]
    channels: Vec<usize>,
    /// Only photons with microtimes from A up to B, as in 2ns..10ns; repeated, each channel has a sensor for
    /// each gate
    #[arg(long, value_name = "A..B", value_parser = gate)]
    gate: Vec<Gate>,
    /// Only photons after marker A and before the next marker B, of 1 to 4, as between the start and the end of a line of a
    /// scan; other instants are left out of the curves, and the sums' last row is the mask's
    #[arg(long, value_name = "A,B", value_parser = markers, hide_short_help = true)]
    between_markers: Option<[usize; 2]>,
    /// Leave a stretch of seconds since the first instant out of the curves, as in 3s..5s, an aggregate or a shutter that --trace shows;
    /// repeated; the sums' last row is the mask's
    #[arg(long, value_name = "A..B", value_parser = gate, hide_short_help = true)]
    exclude: Vec<Gate>,
    /// Leave out bursts: bins of --trace-bin in which a sensor has more than this rate of photons, as in 200kHz
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    bursts: Option<Hertz>,
    /// Correlate components of different decays (FLCS), this one's pattern from a file of one species, flat (afterpulses,
    /// background), gate:2ns..8ns or time:0s..10s of the file itself, or a table .npy, float64 [component][microtime], or .csv;
    /// repeated
    ///
    /// Each channel has a sensor for each component: photons weighted by least squares, sums float64. On a CPU.
    #[arg(long, value_name = "PATTERN", value_parser = pattern,
          conflicts_with_all = ["gate", "resume", "save"], hide_short_help = true)]
    pattern: Vec<PatternArg>,
    /// NumPy file for the weights, float64 [channel][component][microtime]
    #[arg(long, value_name = "W.npy", value_parser = output(), requires = "pattern", hide_short_help = true)]
    weights: Option<PathBuf>,
    /// Spot of a Photon-HDF5 file of several, 1 for its group photon_data1
    #[arg(long, value_name = "N", hide_short_help = true)]
    spot: Option<usize>,
    /// Time of the file's clock at which the first instant begins, as in 0s or 2.5s; photons before are left out [default:
    /// the first event's]
    #[arg(long, value_name = "TIME", value_parser = moment, hide_short_help = true)]
    start: Option<f64>,
    /// Unit of arrival times in NumPy files, as in 1ns
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    unit: Option<Seconds>,
    /// Read an incomplete file of photons up to its end, instead of refusing it
    #[arg(long, hide_short_help = true)]
    keep_going: bool,
    /// File for the count rate of each sensor against time: .npy, float64 [column][bin], seconds first, or
    /// .svg or .png
    #[arg(long, value_name = "FILE", value_parser = output(), hide_short_help = true)]
    trace: Option<PathBuf>,
    /// Length of a bin of the trace, and of --bursts
    #[arg(long, value_name = "TIME", default_value = "10ms", hide_short_help = true)]
    trace_bin: Seconds,
}

/// Reads the number of a channel.
fn channel(text: &str) -> Result<usize, String> {
    match text.trim() {
        "sync" => Ok(SYNC),
        number => number.parse().ok().filter(|&number| number < DETECTORS).ok_or_else(|| {
            format!("channel {text:?}: expected a number below {DETECTORS}, or sync")
        }),
    }
}

/// Reads the numbers of two markers.
fn markers(text: &str) -> Result<[usize; 2], &'static str> {
    let expected = "expected two different markers of 1 to 4, as in 1,2";
    let (first, second) = text.split_once(',').ok_or(expected)?;
    match [first, second].map(|number| number.trim().parse()) {
        [Ok(first), Ok(second)] if first != second => Ok([first, second]),
        _ => Err(expected),
    }
}

const EXAMPLES: &str = "\
Examples:
  corrust autocorrelate counts.npy -o sums.npy --plot g.svg
  corrust autocorrelate counts.npy -o sums.npy --groups 16 --lags 64 --curves g.csv
  corrust autocorrelate counts.npy -o sums.npy --scheme classic --lags 16 --dwell 200ns
  corrust autocorrelate counts.npy -o cross.npy --pair 0,1 --pair 1,0
  corrust autocorrelate photons.ptu -o sums.npy --dwell 1us --blocks 20 --pycorrfit g.csv --plot g.svg
  corrust autocorrelate photons.ptu -o sums.npy --gate 2ns..10ns --gate 10ns..20ns --trace rate.svg
  corrust autocorrelate scan.ptu -o sums.npy --dwell 1us --between-markers 1,2 --curves g.csv
  corrust autocorrelate photons.ptu -o sums.npy --exclude 3s..5s --bursts 200kHz --curves g.csv
  corrust autocorrelate mix.ptu -o sums.npy --pattern slow.ptu --pattern fast.ptu --pattern flat --curves g.csv
  corrust autocorrelate spad.npy -o sums.npy --pairs all --groups 1 --lags 8 --curves g.npy

In Python:
  g = numpy.loadtxt('g.csv', delimiter=',', skiprows=1); plt.semilogx(g[:, 0], g[:, 1])";

impl Args {
    /// Autocorrelates the photons or counts.
    pub fn run(self) -> Result<()> {
        self.files(&[]).check(self.existing)?;
        self.warn_of_given();

        if !self.photons.pattern.is_empty() {
            return self.run_filtered();
        }
        let (counts, dwell) = self.open()?;
        let recording = counts.recording;
        let (sensors, instants) = (recording.shape().sensors, recording.times());
        let (mut plan, mut pairs) = self.plan(sensors, counts.masked, dwell)?;
        if counts.masked {
            pairs.pop();
        }
        // How many curves there are is known only now.
        let pycorrfit =
            self.pycorrfit.as_ref().map_or(Vec::new(), |path| pycorrfit_files(path, &pairs));
        self.files(&pycorrfit).check(self.existing)?;
        let writer = Output::create(&self.output, plan.shape(), Dtype::Uint64)?;
        let traced = self.photons.trace.is_some() || self.pycorrfit.is_some();
        let masked = counts.masked;
        let trace = || Trace::new(sensors, dwell, self.photons.trace_bin.0).masked(masked);
        let mut trace = traced.then(trace);
        let mut blocks = self.blocks.map(|count| Ends::new(count, instants, masked)).transpose()?;

        let start = Instant::now();
        let times = recording.photons();
        let by_times = times.is_some_and(|photons| plan.prefers_times(&photons, instants));
        match by_times {
            true => sum_times(recording, &mut plan, trace.as_mut(), blocks.as_mut())?,
            false => sum(recording, &mut plan, trace.as_mut(), blocks.as_mut())?,
        }
        let state = plan.state()?;
        let seconds = start.elapsed().as_secs_f64();
        note_late(&counts.late);

        let all_sums = Sums::of(&state)?;
        let writes = writer.write(&all_sums);
        let (sums, mask) = all_sums.split_mask(masked);
        let errors = blocks.as_ref().map(Ends::errors);
        let curves = Curves {
            sums: &sums,
            mask: mask.as_ref(),
            pairs: &pairs,
            errors: errors.as_ref(),
            blocks: blocks.as_ref().map(Ends::parts),
            dwell,
            trace: trace.as_ref(),
            sensors: &counts.sensors[..sensors - usize::from(masked)],
        };
        all([
            writes,
            self.write_curves(&curves, &pycorrfit),
            self.save.as_ref().map_or(Ok(()), |path| state.save(path)),
        ])?;
        let device = format!("{}{}", plan.device_name(), if by_times { ", by times" } else { "" });
        self.say_done(
            &sums,
            sensors - usize::from(masked),
            (instants, instants as f64 * dwell),
            seconds,
            &device,
        );
        if state.instants() > instants {
            let all = count(state.instants(), "instant");
            tell(format_args!("  {all} since the stream began"));
        }
        say_left_out(mask.as_ref(), dwell);
        say_empty_blocks(blocks.as_ref());
        Ok(())
    }

    /// Writes and draws the curves.
    fn write_curves<T: Amount>(&self, curves: &Curves<'_, T>, pycorrfit: &[PathBuf]) -> Result<()> {
        all([
            self.curves.as_ref().map_or(Ok(()), |path| curves.write(path)),
            curves.write_pycorrfit(pycorrfit),
            self.photons.trace.as_ref().map_or(Ok(()), |path| curves.write_trace(path)),
            self.plot.as_ref().map_or(Ok(()), |path| self.draw(path, curves)),
        ])
    }

    /// Says how much this run computed, instants and their seconds, in how many seconds.
    fn say_done<T>(
        &self,
        sums: &Sums<T>,
        sensors: usize,
        (instants, length): (u64, f64),
        seconds: f64,
        device: &str,
    ) {
        let took = numbers::seconds(seconds);
        tell(format_args!(
            "autocorrelated {} x {} ({} s) at {} in {took}: {}instants/s on {device}: {}",
            count(sensors, "sensor"),
            count(instants, "instant"),
            digits(length),
            count(sums.points.len(), "lag"),
            si(instants as f64 / seconds),
            self.output.display()
        ));
    }

    /// Warns of options that no output of this run uses.
    fn warn_of_given(&self) {
        let bins = self.photons.trace.is_some() || self.photons.bursts.is_some();
        if !bins && self.pycorrfit.is_none() {
            let why = "there is no trace, expected --trace, --pycorrfit or --bursts";
            given::warn_unused(&["trace-bin"], why);
        }
        if self.curves.is_none() && self.pycorrfit.is_none() && self.plot.is_none() {
            let why = "nothing shows error bars, expected --curves, --pycorrfit or --plot";
            given::warn_unused(&["blocks"], why);
        }
        if self.pairs == Some(Pairs::All) {
            given::warn_unused(
                &["grid"],
                "all pairs are the same in any grid, expected --pairs neighbours",
            );
        }
    }

    /// Options for opening the photons or counts.
    fn options(&self) -> photons::Options {
        let PhotonArgs { channels, gate, exclude, spot, start, unit, keep_going, .. } =
            &self.photons;
        let bin = self.photons.trace_bin.0;
        photons::Options {
            dwell: Some(self.dwell.0),
            channels: channels.clone(),
            gates: gate.clone(),
            between: self.photons.between_markers,
            exclude: exclude.iter().map(|stretch| stretch.start..stretch.end).collect(),
            bursts: self.photons.bursts.map(|Hertz(rate)| Bursts { rate, bin }),
            start: *start,
            unit: unit.map(|unit| unit.0),
            spot: *spot,
            keep_going: *keep_going,
        }
    }

    /// Opens the photons or counts; returns them and the seconds of a sample.
    fn open(&self) -> Result<(photons::Counts, f64)> {
        let counts = photons::open(&self.inputs, &self.options())?;
        if let Some(fault) = counts.recording.left_out() {
            warn(format_args!("{}: {fault}; it is left out", self.inputs[0].display()));
        }
        let dwell = counts.recording.interval().unwrap_or(self.dwell.0);
        if (dwell / self.dwell.0 - 1.0).abs() > 1e-9 {
            note(format_args!("a dwell time of {} ns, whole units of the file", dwell * 1e9));
        }
        Ok((counts, dwell))
    }

    /// Draws the mean curve.
    fn draw<T: Amount>(&self, path: &Path, curves: &Curves<'_, T>) -> Result<()> {
        let (rows, points) = (curves.pairs.len(), &curves.sums.points);
        let what = match (rows, self.pair.is_empty() && self.pairs.is_none()) {
            (1, _) => String::new(),
            (_, true) => format!(", mean of {rows} sensors"),
            (_, false) => format!(", mean of {rows} pairs"),
        };
        // The first lag is 0.
        let lags = [1, points.len() - 1].map(|point| points[point].lag as f64 * curves.dwell);
        let curve = curves.mean_curve();
        plot::curves(path, &[(String::new(), curve)], lags[0]..lags[1], &what)
    }

    /// Files that are read and written; `pycorrfit` are the files of curves for PyCorrFit.
    fn files<'a>(&'a self, pycorrfit: &'a [PathBuf]) -> RunFiles<'a> {
        let files = RunFiles::default().reads(&self.inputs).reads(&self.resume);
        let files = files.writes([&self.output]).writes(&self.save);
        let files = files.writes_as(&self.curves, TABLES).writes_as(&self.plot, plot::ENDINGS);
        let files = files.writes_as(&self.photons.weights, &["npy"]);
        let patterns = self.photons.pattern.iter().filter_map(PatternArg::file);
        let files = files.reads(patterns.collect::<Vec<_>>());
        files.writes_as(&self.photons.trace, TRACES).writes_as(pycorrfit, &["csv"])
    }

    /// Requested pairs of `sensors` sensors; empty for all autocorrelations. The last sensor may be a mask, which is correlated with
    /// itself alone.
    fn asked_pairs(&self, sensors: usize, masked: bool) -> Result<Vec<(usize, usize)>> {
        let own = sensors - usize::from(masked);
        let mut pairs: Vec<_> = match self.pairs {
            Some(pairs) => pairs.of(own, self.grid)?,
            None => self.pair.iter().map(|&Pair(a, b)| (a, b)).collect(),
        };
        if let Some((a, b)) = pairs.iter().find(|(a, b)| *a.max(b) >= own) {
            return Err(Error::invalid(format!(
                "sensor pair {a},{b}: expected numbers below {own}"
            )));
        }
        if masked && !pairs.is_empty() {
            pairs.push((sensors - 1, sensors - 1));
        }
        Ok(pairs)
    }

    /// The plan, and the sensors of each curve, the last of them that of the mask if there is one.
    fn plan(
        &self,
        sensors: usize,
        masked: bool,
        dwell: f64,
    ) -> Result<(Autocorrelator, Vec<[u32; 2]>)> {
        let placed = |builder: Builder| {
            builder.device(self.device.clone()).kernel(self.kernel).dwell(dwell).masked(masked)
        };
        if let Some(path) = &self.resume {
            let state = State::load(path)?;
            if state.shape().sensors != sensors {
                return Err(Error::file(
                    path,
                    format!(
                        "a state of {}: {} has {sensors}",
                        count(state.shape().sensors, "sensor"),
                        self.inputs[0].display()
                    ),
                ));
            }
            let pairs = state.pairs();
            let plan = placed(Autocorrelator::resume(state)).build();
            // The options are this run's, the state is the file's.
            let of_file = |error| match error {
                Error::Invalid(reason) => Error::file(path, reason),
                other => other,
            };
            return Ok((plan.map_err(of_file)?, pairs));
        }
        let builder = placed(Autocorrelator::builder(sensors))
            .groups(self.groups.unwrap_or(10))
            .lags(self.lags.unwrap_or(32))
            .scheme(self.scheme.unwrap_or_default());
        let pairs = self.asked_pairs(sensors, masked)?;
        if pairs.is_empty() {
            let autos = (0..sensors as u32).map(|sensor| [sensor; 2]).collect();
            return Ok((builder.build()?, autos));
        }
        let plan = builder.pairs(&pairs).build()?;
        // All of them are sensors, or there was no plan.
        Ok((plan, pairs.into_iter().map(|(a, b)| [a as u32, b as u32]).collect()))
    }
}

/// Says how much of the stream a mask leaves out, if there is one.
fn say_left_out<T: Amount>(mask: Option<&Sums<T>>, dwell: f64) {
    let Some(mask) = mask else { return };
    let all = mask.instants as f64;
    // At lag 0 every instant has a bin of its own.
    let left = all - mask.direct[[0, 0]].value();
    tell(format_args!("  left out {} s of {} s", digits(left * dwell), digits(all * dwell)));
}

/// Warns of blocks in which no instant counts, if there are any.
fn say_empty_blocks<T: Amount>(blocks: Option<&Ends<T>>) {
    let Some(blocks) = blocks.filter(|blocks| blocks.empty > 0) else { return };
    warn(format_args!(
        "--blocks {}: {} in which no instant counts, error bars are of the other {}",
        blocks.count,
        count(blocks.empty, "block"),
        blocks.blocks.len()
    ));
}

/// Says how many photons were put in order.
fn note_late(late: &AtomicU64) {
    let late = late.load(Ordering::Relaxed);
    if late > 0 {
        note(format_args!("{} came late by one photon, put in order", count(late, "photon")));
    }
}

/// The sums' file, begun before the work so that a bad name is known at once.
struct Output(Writer);

impl Output {
    fn create(path: &Path, shape: &Shape, dtype: Dtype) -> Result<Self> {
        let entry = match shape.scheme {
            Scheme::BinGroups => vec![shape.groups, shape.lags],
            Scheme::Classic => vec![shape.points()],
        };
        Ok(Self(Writer::appending(path, dtype, &entry)?))
    }

    fn write<T: Amount + bytemuck::Pod>(mut self, sums: &Sums<T>) -> Result<()> {
        for row in sums.products.rows() {
            let row = row.to_vec();
            self.0.append(bytemuck::cast_slice(&row))?;
        }
        self.0.finish()
    }
}

/// Sums up a recording, with its trace and blocks.
fn sum(
    recording: Box<dyn Recording<CountShape>>,
    plan: &mut Autocorrelator,
    mut trace: Option<&mut Trace>,
    mut blocks: Option<&mut Ends>,
) -> Result<()> {
    let (shape, instants) = (recording.shape(), recording.times());
    let progress = Progress::over("autocorrelating", shape.sensors as f64, instants);
    let source = Reader::over(recording, block_times(shape.bytes())).locked_for(plan.gpu());
    let mut run = Run::over(source).progress(|done| progress.set(done));
    run.each("sums", |piece| {
        let mut from = 0;
        while from < piece.times {
            let left = piece.times - from;
            let most = blocks.as_ref().map(|blocks| blocks.next() - piece.start - from);
            let end = from + most.map_or(left, |most| left.min(most));
            if let Some(counts) = piece.samples {
                let [first, last] = [from, end].map(|time| time as usize * shape.bytes());
                shape.feed(plan, &counts[first..last])?;
                if let Some(trace) = &mut trace {
                    trace.add(&shape, &counts[first..last]);
                }
            }
            from = end;
            let position = piece.start + from;
            if let Some(blocks) = blocks.as_mut().filter(|blocks| blocks.next() == position) {
                blocks.end(&plan.snapshot()?)?;
            }
        }
        Ok(())
    });
    run.all().map(drop)
}

/// Sums up a recording of photons by their times, with its trace and blocks.
fn sum_times(
    mut recording: Box<dyn Photons>,
    plan: &mut Autocorrelator,
    mut trace: Option<&mut Trace>,
    mut blocks: Option<&mut Ends>,
) -> Result<()> {
    let (sensors, instants) = (recording.shape().sensors, recording.times());
    let progress = Progress::over("autocorrelating", sensors as f64, instants);
    let mut arrived = Arrived::default();
    let (stretch, mut position) = (recording.stretch(), 0);
    loop {
        let most = blocks.as_ref().map_or(u64::MAX, |blocks| blocks.next() - position);
        if recording.read_times(stretch.min(most), &mut arrived)? == 0 {
            return Ok(());
        }
        plan.accumulate_times(arrived.arrivals())?;
        if let Some(trace) = &mut trace {
            trace.add_times(&arrived);
        }
        position += arrived.instants;
        progress.set(position);
        if let Some(blocks) = blocks.as_mut().filter(|blocks| blocks.next() == position) {
            blocks.end(&plan.snapshot()?)?;
        }
    }
}

/// Ends of the blocks of a stream.
struct Ends<T = u64> {
    blocks: Blocks<T>,
    /// Blocks of the mask, which is the sums' last row.
    masks: Option<Blocks<T>>,
    count: u64,
    instants: u64,
    /// Blocks that have ended, and those of them in which no instant counts.
    ended: u64,
    empty: u64,
    /// Instants that count, up to the end of the last block.
    counted: f64,
}

impl<T: Amount> Ends<T> {
    fn new(count: u64, instants: u64, masked: bool) -> Result<Self> {
        if instants < count {
            return Err(Error::invalid(format!(
                "--blocks {count} of {instants} instants: expected at least one for each block"
            )));
        }
        let masks = masked.then(Blocks::default);
        let blocks = Blocks::default();
        Ok(Self { blocks, masks, count, instants, ended: 0, empty: 0, counted: 0.0 })
    }

    /// The instant that ends the block that has begun.
    fn next(&self) -> u64 {
        let block = u128::from(self.count.min(self.ended + 1));
        (u128::from(self.instants) * block / u128::from(self.count)) as u64
    }

    /// Ends it with the sums there. A block in which no instant counts is none: it is a part of the block before, or of
    /// the one after where there is none before.
    fn end(&mut self, sums: &Sums<T>) -> Result<()> {
        if self.ended >= self.count {
            return Ok(());
        }
        self.ended += 1;
        let Some(masks) = &mut self.masks else { return self.blocks.add(sums) };
        let (sums, mask) = sums.clone().split_mask(true);
        let mask = mask.expect("the last row");
        // At lag 0 every instant has a bin of its own.
        let counted = mask.direct[[0, 0]].value();
        if counted > self.counted {
            self.counted = counted;
            masks.add(&mask)?;
            return self.blocks.add(&sums);
        }
        self.empty += 1;
        if self.counted > 0.0 {
            masks.lengthen(&mask)?;
            return self.blocks.lengthen(&sums);
        }
        if self.ended == self.count {
            masks.add(&mask)?;
            return self.blocks.add(&sums);
        }
        Ok(())
    }

    /// Errors of the curves, divided by the mask's.
    fn errors(&self) -> Errors {
        self.blocks.errors_over(self.masks.as_ref())
    }

    /// Blocks that have ended, and the mask's.
    fn parts(&self) -> (&Blocks<T>, Option<&Blocks<T>>) {
        (&self.blocks, self.masks.as_ref())
    }
}
