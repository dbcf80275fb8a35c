//! `corrust delays`.

use std::path::PathBuf;

use corrust::{
    Error, Result,
    delays::{Geometric, Polynomials},
    format::array::Array,
};

use crate::cli::options::run_files::{Existing, RunFiles, input, output};
use crate::cli::options::units::Seconds;
use crate::cli::terminal::numbers::{count, seconds};
use crate::cli::terminal::say::tell;

/// Make the delays that stop the fringes of a source
///
/// The array is a JSON file with "location", "antennas" (or "positions"), perhaps "inputs", "start" and
/// "phase_center", and perhaps "dut1" (UT1 - UTC in seconds) and "polar_motion" (x and y in arc seconds), as
/// the IERS publishes them. Delays are to be applied: an antenna that receives the wave early has a positive
/// one. They follow Earth's rotation, precession, nutation, aberration, and the motion of antennas while the wave
/// arrives; atmosphere and cables are not included.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// JSON file with the positions of the antennas and of the source
    #[arg(value_name = "ARRAY.json", value_parser = input())]
    array: PathBuf,
    /// JSON file to write: polynomials in pieces for each input
    #[arg(short, long, value_name = "D.json", value_parser = output())]
    output: PathBuf,
    #[command(flatten)]
    existing: Existing,
    /// Time from the array's "start" for which the delays hold; they begin a second before and end a
    /// second later
    #[arg(long, value_name = "TIME")]
    duration: Seconds,
    /// Largest error of the polynomials, as 1fs or 0.1ps
    #[arg(long, value_name = "TIME", default_value = "1fs")]
    tolerance: Seconds,
    /// Inputs of the recording [default: as many as the array's "inputs", or antennas]
    #[arg(long, value_name = "N")]
    inputs: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  corrust delays array.json -o delays.json --duration 1h
  corrust delays array.json -o delays.json --duration 10min --inputs 60";

/// Seconds before the start and after the end.
const MARGIN: f64 = 1.0;

impl Args {
    /// Writes the delays.
    pub fn run(self) -> Result<()> {
        let files = RunFiles::default().reads([&self.array]).writes([&self.output]);
        files.check(self.existing)?;
        let array = Array::read(&self.array)?;
        let listed = array.inputs.as_ref().map(Vec::len);
        let antennas = array.antennas.as_ref().map(Vec::len);
        let inputs = self.inputs.or(listed).or(antennas).unwrap_or_default();
        let model = Geometric::of(&array, inputs, None)?;
        if inputs == 0 {
            return Err(Error::file(&self.array, "0 antennas: expected at least 1"));
        }
        let range = -MARGIN..self.duration.0 + MARGIN;
        let delays = model.polynomials(range, self.tolerance.0)?;
        delays.write(&self.output, array.start)?;
        tell(format_args!(
            "made delays of {}, {} each, up to {}: {}",
            count(inputs, "input"),
            count(delays.pieces(0).len(), "piece"),
            seconds(longest(&delays)),
            self.output.display()
        ));
        Ok(())
    }
}

/// The longest delay at the start of a piece.
fn longest(delays: &Polynomials) -> f64 {
    let pieces = (0..delays.inputs()).flat_map(|input| delays.pieces(input));
    pieces.map(|piece| piece.coefficients[0].abs()).fold(0.0, f64::max)
}
