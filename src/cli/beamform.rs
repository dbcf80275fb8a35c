//! `corrust beamform`.

use std::{path::PathBuf, time::Instant};

use corrust::{
    Beamformer, Device, Encoding, Error, Layout, Result,
    beamform::{Beams, Kernel, Rounding, Shape, useful_operations},
    correlate,
    format::npy::{Dtype, Reader, Writer},
};
use ndarray::Array3;

use super::{
    count, digits,
    progress::Progress,
    run_files::{Existing, RunFiles, all, input, output},
    say,
    selection::expect_integers,
    si, warn,
};

/// Bytes of voltages that are read and beamformed at a time.
const BLOCK_BYTES: usize = 1 << 27;

/// Times of a block are a multiple of this, where there are so many.
const GRAIN: usize = 64;

/// Where more of the samples than this part of them are clipped, it is said. Noise of the voltages' level
/// loses half a percent.
const MUCH_CLIPPED: f64 = 0.02;

/// Form beams: J = clamp((sum over d of A[f][p][b][d] E[t][f][p][d]) >> s[f][p][b])
///
/// The output is a NumPy file, uint8 [B][F][P][T]: real part in the high nibble, imaginary part in
/// the low one, each -7..7. Sums are exact and the same on every device.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Voltages, a NumPy file, - for the standard input: ci4 as uint8 [T][F][P][D], or [T][F][D] for one
    /// polarisation
    #[arg(value_name = "E.npy", value_parser = input())]
    voltages: PathBuf,
    /// Weights, a NumPy file: int8 [F][P][B][D][2], or ci4 as uint8 [F][P][B][D]
    #[arg(long, value_name = "A.npy", value_parser = input())]
    weights: PathBuf,
    /// Bits to shift the sums down by, a NumPy file: any integers [F][P][B], 0 to 31
    #[arg(long, value_name = "s.npy", value_parser = input())]
    shifts: PathBuf,
    /// NumPy file to write, - for the standard output
    #[arg(short, long, value_name = "J.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// nearest: (x + 2^(s-1)) >> s; floor: x >> s
    #[arg(long, default_value_t)]
    rounding: Rounding,
    /// NumPy file to write the incoherent beam to, int64 [F][P][T]: the sum over d of |E|^2
    #[arg(long, value_name = "I.npy", value_parser = output())]
    incoherent: Option<PathBuf>,
    /// NumPy file to write the number of clipped samples to, uint64 [F][P][B]
    #[arg(long, value_name = "COUNTS.npy", value_parser = output())]
    clipped: Option<PathBuf>,
    /// auto (the first GPU, else the CPU), cuda, cuda:1, cpu or sim
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    #[arg(long, default_value_t = Kernel::Auto, help = kernels())]
    kernel: Kernel,
}

fn kernels() -> String {
    let names: Vec<_> = Kernel::ALL[1..].iter().map(|kernel| kernel.name()).collect();
    format!("auto (the quickest for the shape on the device), {}", names.join(", "))
}

const EXAMPLES: &str = "\
Examples:
  corrust weights array.json -o weights.npy --shifts shifts.npy    from coordinates
  corrust beamform voltages.npy --weights weights.npy --shifts shifts.npy -o beams.npy
  corrust beamform voltages.npy --weights weights.npy --shifts shifts.npy -o beams.npy \\
      --incoherent power.npy --clipped clipped.npy --device cpu

In Python:
  j = numpy.load('beams.npy').view('int8')
  re, im = j >> 4, (j << 4) >> 4             # [beam, frequency, polarisation, time]";

impl Args {
    /// Forms the beams.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads([&self.voltages, &self.weights, &self.shifts]);
        let files = files.writes([&self.output]).writes(&self.incoherent).writes(&self.clipped);
        files.check(self.existing)?;

        let mut voltages = Reader::open(&self.voltages)?;
        let (times, streams) = match *voltages.shape() {
            [times, channels, dishes] => {
                voltages.expect(Dtype::Uint8, &["T", "F", "D"])?;
                (times, [channels, 1, dishes])
            }
            _ => {
                voltages.expect(Dtype::Uint8, &["T", "F", "P", "D"])?;
                let axes = voltages.shape();
                (axes[0], [axes[1], axes[2], axes[3]])
            }
        };
        let [channels, polarisations, dishes] = streams;
        let mut weights = Reader::open(&self.weights)?;
        let encoding = self.check_weights(&weights, streams)?;
        let beams = weights.shape()[2];
        let shape = Shape { dishes, beams, channels, polarisations };

        let mut plan = Beamformer::builder(dishes, beams)
            .channels(channels)
            .polarisations(polarisations)
            .weights(encoding)
            .rounding(self.rounding)
            .incoherent(self.incoherent.is_some())
            .device(self.device)
            .kernel(self.kernel)
            .build()?;
        plan.set_weights(&weights.read_all()?)?;
        plan.set_shifts(&self.read_shifts(&shape)?)?;

        let rows = [beams, channels, polarisations, times];
        let mut output = Writer::with_shape(&self.output, Dtype::Uint8, &rows)?;
        let mut incoherent = self
            .incoherent
            .as_ref()
            .map(|path| Writer::with_shape(path, Dtype::Int64, &rows[1..]))
            .transpose()?;
        let counts = self
            .clipped
            .as_ref()
            .map(|path| Writer::with_shape(path, Dtype::Uint64, &[channels, polarisations, beams]))
            .transpose()?;

        let start = Instant::now();
        let progress = Progress::new("beamforming", &samples_per_time(&shape), times as u64);
        let step = shape.bytes_per_time();
        let block_times = (BLOCK_BYTES / step).max(1);
        let block_times =
            if block_times > GRAIN { block_times / GRAIN * GRAIN } else { block_times };
        let mut block = vec![0; block_times.min(times) * step];
        let mut clipped = Array3::<u64>::zeros((channels, polarisations, beams));
        let mut formed = Beams::default();
        for first in (0..times).step_by(block_times) {
            let count = block_times.min(times - first);
            let block = &mut block[..count * step];
            voltages.read_at((first * step) as u64, block)?;
            plan.beamform_into(&*block, &mut formed)?;
            let place = |row: usize| (row * times + first) as u64;
            let samples = formed.samples.as_slice().expect("beams are stored in standard order");
            for (row, samples) in samples.chunks_exact(count).enumerate() {
                output.write_at(place(row), samples)?;
            }
            if let (Some(writer), Some(powers)) = (&mut incoherent, &formed.incoherent) {
                let powers: Vec<i64> = powers.iter().map(|&power| power.into()).collect();
                for (row, powers) in powers.chunks_exact(count).enumerate() {
                    writer.write_at(place(row), bytemuck::cast_slice(powers))?;
                }
            }
            clipped += &formed.clipped;
            progress.set((first + count) as u64);
        }
        drop(progress);
        let write_counts = |mut counts: Writer| {
            let clipped = clipped.as_slice().expect("counts are stored in standard order");
            counts.write_at(0, bytemuck::cast_slice(clipped))?;
            counts.finish()
        };
        all([
            output.finish(),
            incoherent.map_or(Ok(()), Writer::finish),
            counts.map_or(Ok(()), write_counts),
        ])?;

        let seconds = start.elapsed().as_secs_f64();
        let formed = (shape.shifts() * times) as f64;
        let clipped = clipped.sum() as f64 / formed;
        if clipped > MUCH_CLIPPED {
            warn(format_args!(
                "{} % of the samples are clipped: larger shifts (corrust weights --shift) keep them",
                digits(100.0 * clipped)
            ));
        }
        say(format_args!(
            "formed {} of {} x {} x {} x {} in {seconds:.2} s: {}voltages/s, {} useful TOPS on {} \
             ({}), {} % of the samples clipped: {}",
            count(beams, "beam"),
            count(dishes, "dish"),
            count(channels, "channel"),
            count(polarisations, "polarisation"),
            count(times, "time"),
            si((step * times) as f64 / seconds),
            digits(useful_operations(&shape, times as u64) / seconds / 1e12),
            plan.device_name(),
            plan.kernel(),
            digits(100.0 * clipped),
            self.output.display()
        ));
        Ok(())
    }

    /// Checks the weights against the axes `[F, P, D]` of the voltages, and returns how a weight is
    /// stored.
    fn check_weights(&self, weights: &Reader, streams: [usize; 3]) -> Result<Encoding> {
        let encoding = if weights.dtype() == Some(Dtype::Uint8) {
            weights.expect(Dtype::Uint8, &["F", "P", "B", "D"])?;
            Encoding::Ci4
        } else {
            weights.expect(Dtype::Int8, &["F", "P", "B", "D", "2"])?;
            Encoding::Ci8
        };
        let [channels, polarisations, dishes] = streams;
        let axes = weights.shape();
        let mut expected = vec![channels, polarisations, axes[2], dishes];
        if encoding == Encoding::Ci8 {
            expected.push(2);
        }
        if axes != expected {
            return Err(Error::file(
                &self.weights,
                format!(
                    "weights of shape {axes:?}: expected {expected:?} for the voltages of {}",
                    self.voltages.display()
                ),
            ));
        }
        Ok(encoding)
    }

    fn read_shifts(&self, shape: &Shape) -> Result<Vec<u32>> {
        let mut shifts = Reader::open(&self.shifts)?;
        let (dtype, decode) = expect_integers(&shifts, &["F", "P", "B"])?;
        let expected = [shape.channels, shape.polarisations, shape.beams];
        if shifts.shape() != expected {
            return Err(Error::file(
                &self.shifts,
                format!(
                    "shifts of shape {:?}: expected {expected:?} for the weights of {}",
                    shifts.shape(),
                    self.weights.display()
                ),
            ));
        }
        let bytes = shifts.read_all()?;
        bytes
            .chunks_exact(dtype.bytes())
            .map(|bytes| {
                let shift = decode(bytes);
                u32::try_from(shift).ok().filter(|&shift| shift <= 31).ok_or_else(|| {
                    Error::file(&self.shifts, format!("shift {shift}: expected 0 to 31"))
                })
            })
            .collect()
    }
}

/// As many samples a time as there are voltages, for the progress bar.
fn samples_per_time(shape: &Shape) -> correlate::Shape {
    correlate::Shape {
        inputs: shape.polarisations * shape.dishes,
        channels: shape.channels,
        encoding: Encoding::Ci4,
        layout: Layout::Tcn,
    }
}
