//! `corrust autocorrelate`.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    str::FromStr,
    time::Instant,
};

use corrust::{
    Autocorrelator, Devices, Error, Result,
    autocorrelate::{Kernel, Scheme, State, Sums},
    format::{
        PartialFile,
        npy::{Dtype, Reader, Writer},
    },
};

use super::{
    count, digits, plot,
    progress::Progress,
    run_files::{Existing, RunFiles, all, ending, input, output},
    say, si,
    units::Seconds,
};

/// Bytes of counts that are read at a time.
const BLOCK_BYTES: usize = 1 << 26;

/// Autocorrelate photon counts: sums of products at lags spread over decades (multi-tau)
///
/// The counts are a NumPy file, uint8 [T][sensor]. The output is a NumPy file, uint64
/// [sensor][group][lag]: A_k[c] = sum over m of Z_k[m] Y_k,c[m], bins of 2^k samples, lag S (2^k - 1)
/// + c 2^k samples. Sums are exact and the same on every device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// NumPy file of counts, uint8 [T][sensor], or [T] of one sensor; - for the standard input
    #[arg(value_name = "COUNTS.npy", value_parser = input())]
    input: PathBuf,
    /// NumPy file to write the sums to, - for the standard output
    #[arg(short, long, value_name = "G.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Groups of bins, each twice as long as those of the group before: 1 to 24 [default: 10]
    #[arg(long, value_name = "G")]
    groups: Option<usize>,
    /// Lags of a group: 2 to 65536, an even number in the classic scheme [default: 32]
    #[arg(long, value_name = "S")]
    lags: Option<usize>,
    /// bin-groups, or classic: lags 0..=S, then S/2 for every doubling, as hardware correlators and
    /// Python's multipletau have them; the output is then uint64 [sensor][point] [default: bin-groups]
    #[arg(long)]
    scheme: Option<Scheme>,
    /// Cross-correlate sensors A and B, B delayed, instead of autocorrelating all; may be repeated
    #[arg(long, value_name = "A,B")]
    pair: Vec<Pair>,
    /// Length of a sample: a number with ns, us, ms or s
    #[arg(long, value_name = "TIME", default_value = "1.6us")]
    dwell: Seconds,
    /// File for the normalised g(tau), .csv or .npy: lag in seconds, mean over all curves, every curve
    ///
    /// CSV: a column each. NumPy: float64 [column][point]. What nothing was counted for is empty, or
    /// NaN.
    #[arg(long, value_name = "FILE", value_parser = output())]
    curves: Option<PathBuf>,
    /// Draw the mean g(tau) on a logarithmic axis, to a file in .svg or .png
    #[arg(long, value_name = "FILE", value_parser = output())]
    plot: Option<PathBuf>,
    /// Continue the stream whose state was saved in this file
    #[arg(long, value_name = "STATE", value_parser = input(), conflicts_with_all = ["groups", "lags", "scheme", "pair"])]
    resume: Option<PathBuf>,
    /// Save the state of the stream to this file, to be resumed
    #[arg(long, value_name = "STATE", value_parser = output())]
    save: Option<PathBuf>,
    /// auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim; cuda:0,cuda:1, cuda:all or sim,sim:
    /// several GPUs share the sensors or pairs
    #[arg(long, default_value_t)]
    device: Devices,
    /// On a GPU: auto, bin-groups or tensor-cores
    #[arg(long, default_value_t = Kernel::Auto)]
    kernel: Kernel,
}

const EXAMPLES: &str = "\
Examples:
  corrust autocorrelate counts.npy -o sums.npy --plot g.svg
  corrust autocorrelate counts.npy -o sums.npy --groups 16 --lags 64 --curves g.csv
  corrust autocorrelate counts.npy -o sums.npy --scheme classic --lags 16 --dwell 200ns
  corrust autocorrelate counts.npy -o cross.npy --pair 0,1 --pair 1,0

In Python:
  g = numpy.loadtxt('g.csv', delimiter=',', skiprows=1); plt.semilogx(g[:, 0], g[:, 1])";

/// A pair of sensors.
#[derive(Clone, Copy, Debug)]
struct Pair(usize, usize);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (a, b) = text.split_once(',').ok_or("expected two numbers, as in 0,1")?;
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
        Ok(Self(number(a)?, number(b)?))
    }
}

impl Args {
    /// Autocorrelates the counts.
    pub fn run(self) -> Result<()> {
        let dwell = self.dwell.0;
        let files = RunFiles::default().reads([&self.input]).reads(&self.resume);
        let files = files.writes([&self.output]).writes(&self.save);
        let files = files.writes_as(&self.curves, TABLES).writes_as(&self.plot, plot::ENDINGS);
        files.check(self.existing)?;

        let (mut reader, [instants, sensors]) = self.open()?;
        let mut plan = self.plan(sensors)?;
        let writer = Output::create(&self.output, &plan)?;

        let start = Instant::now();
        let progress = Progress::over("autocorrelating", sensors as f64, instants as u64);
        let block = (BLOCK_BYTES / sensors).max(1);
        let mut counts = vec![0; block.min(instants) * sensors];
        for first in (0..instants).step_by(block) {
            let read = block.min(instants - first);
            let counts = &mut counts[..read * sensors];
            reader.read_at(first as u64 * sensors as u64, counts)?;
            plan.accumulate(&*counts)?;
            progress.set((first + read) as u64);
        }
        let state = plan.state()?;
        drop(progress);
        let seconds = start.elapsed().as_secs_f64();

        let sums = Sums::of(&state);
        let write_curves = |path: &PathBuf| write_curves(path, &sums, state.pairs(), dwell);
        all([
            writer.write(&sums),
            self.curves.as_ref().map_or(Ok(()), write_curves),
            self.plot.as_ref().map_or(Ok(()), |path| self.draw(path, &sums)),
            self.save.as_ref().map_or(Ok(()), |path| state.save(path)),
        ])?;
        say(format_args!(
            "autocorrelated {} x {} ({} s) at {} in {seconds:.2} s: {}instants/s on {}: {}",
            count(sensors, "sensor"),
            count(instants, "instant"),
            digits(instants as f64 * dwell),
            count(sums.points.len(), "lag"),
            si(instants as f64 / seconds),
            plan.device_name(),
            self.output.display()
        ));
        Ok(())
    }

    /// Opens the counts, and returns them with the numbers of instants and of sensors.
    fn open(&self) -> Result<(Reader, [usize; 2])> {
        let reader = Reader::open(&self.input)?;
        let axes = match *reader.shape() {
            // What is counted by one sensor needs no axis of sensors.
            [instants] => {
                reader.expect(Dtype::Uint8, &["T"])?;
                [instants, 1]
            }
            _ => {
                reader.expect(Dtype::Uint8, &["T", "sensor"])?;
                [reader.shape()[0], reader.shape()[1]]
            }
        };
        Ok((reader, axes))
    }

    /// Draws the mean curve.
    fn draw(&self, path: &Path, sums: &Sums) -> Result<()> {
        let dwell = self.dwell.0;
        let rows = sums.products.nrows();
        let what = match (rows, self.pair.is_empty()) {
            (1, _) => String::new(),
            (_, true) => format!(", mean of {rows} sensors"),
            (_, false) => format!(", mean of {rows} pairs"),
        };
        // The first lag is 0.
        let lags = [1, sums.points.len() - 1].map(|point| sums.points[point].lag as f64);
        plot::curve(path, &sums.mean_curve(dwell), lags[0] * dwell..lags[1] * dwell, &what)
    }

    fn plan(&self, sensors: usize) -> Result<Autocorrelator> {
        if let Some(path) = &self.resume {
            let state = State::load(path)?;
            if state.shape().sensors != sensors {
                return Err(Error::file(
                    path,
                    format!(
                        "a state of {}: {} has {sensors}",
                        count(state.shape().sensors, "sensor"),
                        self.input.display()
                    ),
                ));
            }
            return Autocorrelator::builder(sensors)
                .resume(state)
                .device(self.device.clone())
                .kernel(self.kernel)
                .build();
        }
        let mut builder = Autocorrelator::builder(sensors)
            .groups(self.groups.unwrap_or(10))
            .lags(self.lags.unwrap_or(32))
            .scheme(self.scheme.unwrap_or_default())
            .device(self.device.clone())
            .kernel(self.kernel);
        if !self.pair.is_empty() {
            let pairs: Vec<_> = self.pair.iter().map(|&Pair(a, b)| (a, b)).collect();
            builder = builder.pairs(&pairs);
        }
        builder.build()
    }
}

/// The sums' file, begun before the work so that a bad name is known at once.
struct Output(Writer);

impl Output {
    fn create(path: &Path, plan: &Autocorrelator) -> Result<Self> {
        let shape = plan.shape();
        let entry = match shape.scheme {
            Scheme::BinGroups => vec![shape.groups, shape.lags],
            Scheme::Classic => vec![shape.points()],
        };
        Ok(Self(Writer::appending(path, Dtype::Uint64, &entry)?))
    }

    fn write(mut self, sums: &Sums) -> Result<()> {
        for row in sums.products.rows() {
            let bytes: Vec<u8> = row.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            self.0.append(&bytes)?;
        }
        self.0.finish()
    }
}

/// Endings of the files of normalised curves.
const TABLES: &[&str] = &["csv", "npy"];

/// Writes the normalised curves.
fn write_curves(path: &Path, sums: &Sums, pairs: &[[u32; 2]], dwell: f64) -> Result<()> {
    let rows = sums.products.nrows();
    let points = 0..sums.points.len();
    let lag = |point: usize| sums.points[point].lag as f64 * dwell;
    if ending(path) == "npy" {
        let mut writer = Writer::appending(path, Dtype::Float64, &[points.len()])?;
        let mut append = |column: &dyn Fn(usize) -> f64| {
            let bytes: Vec<u8> =
                points.clone().flat_map(|point| column(point).to_le_bytes()).collect();
            writer.append(&bytes)
        };
        append(&lag)?;
        append(&|point| sums.mean_g(point).unwrap_or(f64::NAN))?;
        for row in 0..rows {
            append(&|point| sums.g(row, point).unwrap_or(f64::NAN))?;
        }
        return writer.finish();
    }
    let mut text = String::from("lag_seconds,mean");
    for &[direct, delayed] in pairs {
        let _ = if direct == delayed {
            write!(text, ",sensor_{direct}")
        } else {
            write!(text, ",pair_{direct}_{delayed}")
        };
    }
    text.push('\n');
    for point in points {
        let _ = write!(text, "{:.9e}", lag(point));
        let values = (0..rows).map(|row| sums.g(row, point));
        for value in std::iter::once(sums.mean_g(point)).chain(values) {
            text.push(',');
            if let Some(value) = value {
                let _ = write!(text, "{value}");
            }
        }
        text.push('\n');
    }
    let mut file = PartialFile::create(path)?;
    file.append(text.as_bytes())?;
    file.finish()
}
