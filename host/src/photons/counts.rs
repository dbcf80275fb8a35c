//! Counts that are kept in a NumPy file.

use super::CountShape;
use crate::{
    Result,
    format::{
        Block, Recording,
        npy::{Dtype, Reader},
    },
};

/// The counts of a file.
pub(super) struct Kept {
    reader: Reader,
    shape: CountShape,
    instants: u64,
    position: u64,
    dwell: f64,
}

impl Kept {
    pub fn open(reader: Reader, dwell: f64) -> Result<Self> {
        let wide = reader.dtype() == Some(Dtype::Uint16);
        let dtype = if wide { Dtype::Uint16 } else { Dtype::Uint8 };
        // What is counted by one sensor needs no axis of sensors.
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
        Ok(Self { reader, shape, instants: instants as u64, position: 0, dwell })
    }
}

impl Recording<CountShape> for Kept {
    fn shape(&self) -> CountShape {
        self.shape
    }

    fn times(&self) -> u64 {
        self.instants
    }

    fn interval(&self) -> Option<f64> {
        Some(self.dwell)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("format", "NumPy, counts".to_owned())]
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        self.position += times.min(self.instants - self.position);
        Ok(())
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        let left = usize::try_from(self.instants - self.position).unwrap_or(usize::MAX);
        let times = times.min(left);
        block.reset_bytes(times * self.shape.bytes(), times)?;
        self.reader.read_at(self.position * self.shape.sensors as u64, &mut block.samples)?;
        self.position += times as u64;
        Ok(times)
    }
}
