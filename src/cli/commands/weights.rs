//! `corrust weights`.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, SystemTime},
};

use corrust::{
    Error, Result,
    beamform::{MAX_SHIFT, Pointing, Targets, noise_shift},
    format::{
        Timestamp,
        array::Array,
        moment,
        npy::{Dtype, Writer},
    },
};

use crate::cli::options::run_files::{Existing, RunFiles, all, input, output};
use crate::cli::options::units::Seconds;
use crate::cli::terminal::numbers::count;
use crate::cli::terminal::say::tell;

/// Make weights and shifts for `corrust beamform` from coordinates
///
/// The array is a JSON file with "positions" [[east, north, up], ...] of the dishes in metres (or
/// "antennas" with a "position" each), "frequencies" [...] of the channels in hertz, and "pointings" of the beams: directions [east,
/// north, up] of any length, or [azimuth, altitude] in degrees, azimuth from north through east.
/// Sources among the stars (--source) need "location" and a moment. Channels may be "first_channel" and "channel_width", with
/// --channels. Other fields are ignored: what `corrust simulate` writes beside a recording is such a file, with a
/// beam at each source. Weights have magnitude 127 and phase 2 pi nu tau, for the delay
/// tau = -(position . direction) / c of a plane wave at a dish.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// Positions, frequencies and pointings, a JSON file
    #[arg(value_name = "ARRAY.json", value_parser = input())]
    array: PathBuf,
    /// NumPy file to write the weights to, int8 [F][P][B][D][2]
    #[arg(short, long, value_name = "A.npy", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// NumPy file to write the shifts to, int32 [F][P][B]
    #[arg(long, value_name = "s.npy", value_parser = output())]
    shifts: Option<PathBuf>,
    /// One more beam, after those of the file: east,north,up or azimuth,altitude
    #[arg(long, value_name = "POINTING", allow_hyphen_values = true)]
    pointing: Vec<Pointing>,
    /// One more beam, after those, towards a source: right ascension and declination in degrees, ICRS, as 83.633,22.014
    #[arg(long, value_name = "RA,DEC", value_parser = source, allow_hyphen_values = true)]
    source: Vec<[f64; 2]>,
    /// When sources are pointed at, UTC, as 2026-03-20T14:46:00Z [default: the array's "start"]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Timestamp>,
    /// Write the files anew with weights of the present time, as often as this says, until a signal: corrust observe takes
    /// them while it beamforms, with steer = true
    #[arg(long, value_name = "TIME", conflicts_with = "at")]
    follow: Option<Seconds>,
    /// The voltages are delayed to the array's "phase_center" (--delays), which they then follow: weights count from it, and are
    /// all equal towards it. Without another beam there is one towards it
    #[arg(long)]
    delayed: bool,
    /// Channels, of "first_channel" and "channel_width"
    #[arg(long, value_name = "F")]
    channels: Option<usize>,
    /// Polarisations, all with the same weights
    #[arg(long, default_value_t = 1, value_name = "P")]
    polarisations: usize,
    /// Bits to shift the sums down by, 0 to 31 [default: as many as keep the level of noise that the
    /// dishes do not share; a strong source needs 1 or 2 more]
    #[arg(long, value_name = "BITS", requires = "shifts",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_SHIFT)))]
    shift: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  corrust simulate -o e.npy --inputs 64 --encoding ci4 --sources 1
  corrust weights e.json -o a.npy --shifts s.npy --pointing 0,0,1 --shift 12
  corrust beamform e.npy --weights a.npy --shifts s.npy -o j.npy     beam 0: the source, 1: the zenith

  echo '{\"positions\": [[0, 0, 0], [6.3, 0, 0]], \"frequencies\": [6e8], \"pointings\": []}' > array.json
  corrust weights array.json -o a.npy --pointing 180,49.3            azimuth and altitude
  corrust weights array.json -o a.npy --source 83.633,22.014 --at 2026-03-20T14:46:00Z
  corrust weights array.json -o a.npy --shifts s.npy --source 83.633,22.014 --follow 10s
  corrust weights array.json -o a.npy --delayed --channels 1024      the source that --delays follows";

/// Reads right ascension and declination.
fn source(text: &str) -> Result<[f64; 2], String> {
    let parts = text
        .split_once(',')
        .and_then(|(ra, dec)| Some([ra.trim().parse().ok()?, dec.trim().parse().ok()?]));
    parts.ok_or_else(|| {
        "expected right ascension and declination in degrees, as 83.633,22.014".into()
    })
}

impl Args {
    /// Writes the weights and shifts, once or again and again.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads([&self.array]);
        files.writes([&self.output]).writes(&self.shifts).check(self.existing)?;
        let array = Array::read(&self.array)?;
        let Some(Seconds(every)) = self.follow else { return self.write(&array, self.at) };
        if self.source.is_empty() && !self.delayed {
            let reason = "without a source to follow: expected --source, or --delayed";
            return Err(Error::setting("follow", None, reason));
        }
        loop {
            let now = Timestamp::try_from(SystemTime::now());
            self.write(&array, Some(now.map_err(|error| Error::invalid(error.to_string()))?))?;
            thread::sleep(Duration::from_secs_f64(every));
        }
    }

    /// Writes the files, with weights of a moment.
    fn write(&self, array: &Array, at: Option<Timestamp>) -> Result<()> {
        let targets = Targets {
            pointings: self.pointing.clone(),
            sources: self.source.clone(),
            at,
            delayed: self.delayed,
            channels: self.channels,
        };
        let weights = array.weights(self.polarisations, &targets)?;
        let (channels, polarisations, beams, dishes, parts) = weights.dim();
        let axes = [channels, polarisations, beams, dishes, parts];
        let mut output = Writer::with_shape(&self.output, Dtype::Int8, &axes)?;
        let bytes = weights.as_slice().expect("a fresh array is contiguous");
        output.write_at(0, bytemuck::cast_slice(bytes))?;
        let shift = self.shift.unwrap_or_else(|| noise_shift(dishes));
        let shifts = self
            .shifts
            .as_ref()
            .map(|path| {
                let mut shifts = Writer::with_shape(path, Dtype::Int32, &axes[..3])?;
                let values = vec![shift as i32; channels * polarisations * beams];
                shifts.write_at(0, bytemuck::cast_slice(&values))?;
                Ok(shifts)
            })
            .transpose()?;
        all([output.finish(), shifts.map_or(Ok(()), Writer::finish)])?;
        tell(format_args!(
            "made weights of {} of {} x {} x {}{}: {}",
            count(beams, "beam"),
            count(dishes, "dish"),
            count(channels, "channel"),
            count(polarisations, "polarisation"),
            if self.shifts.is_some() { format!(", shift {shift}") } else { String::new() },
            self.output.display()
        ));
        Ok(())
    }
}
