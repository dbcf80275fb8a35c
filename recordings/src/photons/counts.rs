//! Counts that are kept in a NumPy file.

use corrust_host::{Result, samples::CountShape};

use super::source::Source;
use crate::formats::{
    Block,
    npy::{Dtype, Reader},
};

/// The counts of a file.
pub(super) struct Kept {
    reader: Reader,
    shape: CountShape,
    instants: u64,
    dwell: f64,
}

impl Kept {
    pub fn open(reader: Reader, dwell: f64) -> Result<Self> {
        let wide = reader.dtype() == Some(Dtype::Uint16);
        let dtype = if wide { Dtype::Uint16 } else { Dtype::Uint8 };
        // Counts of one sensor need no axis of sensors.
        let (instants, sensors) = match *reader.shape() {
            [instants] => {
                reader.expect(dtype, &["T"])?;
                (instants, 1)
            }
            _ => {
                reader.expect(dtype, &["T", "sensor"])?;
                (reader.shape()[0], reader.shape()[1])
            }
        };
        let shape = CountShape { sensors, wide };
        Ok(Self { reader, shape, instants: instants as u64, dwell })
    }
}

impl Source for Kept {
    const SEEKS: bool = true;

    fn shape(&self) -> CountShape {
        self.shape
    }

    fn instants(&self) -> u64 {
        self.instants
    }

    fn dwell(&self) -> f64 {
        self.dwell
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", "NumPy, counts".to_owned())]
    }

    fn read(&mut self, first: u64, times: usize, block: &mut Block) -> Result<()> {
        block.reset_bytes(times * self.shape.bytes(), times)?;
        self.reader.read_at(first * self.shape.sensors as u64, &mut block.samples)
    }
}
