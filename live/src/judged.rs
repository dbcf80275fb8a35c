//! Heaps that are judged by their spectral kurtosis before they are correlated.

use std::sync::Arc;

use corrust_host::{
    Correlator, Device, Error, Result,
    device::Gpu,
    kurtosis::{Judge, Kurtosis, Stage, Sums as Moments},
    samples::Missing,
};

use super::{
    chunks::{Chunk, Geometry, Passed},
    dumps::{Channels, Integrator, LiveDump, Sums},
    memory::DeviceMemory,
};

/// Heaps of which blocks of times that are no Gaussian noise are missing. Blocks are counted from timestamp 0.
pub struct Judged {
    geometry: Geometry,
    kurtosis: Kurtosis,
    judge: Judge,
    /// Samples in a GPU's memory that are judged there; [`None`] on the CPU.
    stage: Option<Stage>,
    /// Blocks of an input's channel that were flagged, and all that were judged.
    blocks: [u64; 2],
    /// Samples that were flagged, that were lost before, and all.
    samples: [u64; 3],
}

impl Judged {
    /// Judges blocks of `block_times` times: in the memory of the only GPU, else on the CPU.
    ///
    /// # Errors
    /// [`Error::Invalid`] when chunks are no whole blocks; as for [`Stage::new`].
    pub fn new(
        geometry: Geometry,
        judge: Judge,
        block_times: usize,
        gpus: &[Arc<dyn Gpu>],
    ) -> Result<Self> {
        let (shape, times) = (geometry.shape(), geometry.chunk_times());
        if !times.is_multiple_of(block_times.max(1)) {
            return Err(Error::invalid(format!(
                "chunks of {times} times: expected a multiple of {block_times}, the times of a block that is judged"
            )));
        }
        let plan = Kurtosis::builder().encoding(shape.encoding).block_times(block_times);
        let stage = match gpus {
            [gpu] => Some(Stage::new(gpu, shape, judge.clone(), block_times, times)?),
            _ => None,
        };
        let kurtosis = plan.device(Device::Cpu).build()?;
        Ok(Self { geometry, kurtosis, judge, stage, blocks: [0; 2], samples: [0; 3] })
    }

    fn count(&mut self, moments: &Moments, flagged: &[Missing]) {
        let cells = |gap: &Missing| (gap.channels.len() * gap.inputs.len()) as u64;
        self.blocks[0] += flagged.iter().map(cells).sum::<u64>();
        let judged = moments.values.len() as u64 / 3;
        self.blocks[1] += judged;
        let blocks = moments.values.shape()[0].max(1) as u64;
        let all = judged / blocks * moments.times as u64;
        let valid = moments.values.iter().step_by(3).map(|&valid| valid as u64).sum::<u64>();
        for gap in flagged {
            let block = gap.times.start / moments.block_times;
            for channel in gap.channels.clone() {
                let of = |input| moments.values[[block, channel, input, 0]] as u64;
                self.samples[0] += gap.inputs.clone().map(of).sum::<u64>();
            }
        }
        self.samples[1] += all - valid;
        self.samples[2] += all;
    }
}

impl Channels for Judged {
    type Chunk = Chunk;

    fn add(
        &mut self,
        passed: &Passed,
        sums: &mut Sums,
        done: &mut dyn FnMut(&LiveDump) -> Result<()>,
    ) -> Result<()> {
        let Some(chunk) = &passed.chunk else { return Ok(()) };
        chunk.device().map_or(Ok(()), DeviceMemory::check)?;
        let missing = chunk.missing(&self.geometry);
        let times = 0..(passed.end - passed.start) as usize;
        let samples = chunk.view(&self.geometry, &missing).times(times.clone());
        if let Some(stage) = &mut self.stage {
            stage.begin()?;
            stage.put(&samples)?;
            stage.close();
            let (moments, flagged) = stage.judge()?;
            sums.add(stage.view(), passed.start, done)?;
            self.count(&moments, &flagged);
            return Ok(());
        }
        let moments = self.kurtosis.sums(samples)?;
        let flagged = self.judge.flagged(&moments);
        self.count(&moments, &flagged);
        let missing = [missing, flagged].concat();
        let samples = chunk.view(&self.geometry, &missing).times(times);
        sums.add(samples, passed.start, done)
    }

    fn time(&self, end: u64) -> u64 {
        end
    }

    fn flagged(&self) -> Option<[u64; 2]> {
        Some(self.blocks)
    }

    fn judged(&self) -> Option<[u64; 3]> {
        Some(self.samples)
    }
}

impl Integrator<Judged> {
    /// Dumps of `integration` times.
    ///
    /// # Errors
    /// As for [`Integrator::new`].
    pub fn judged(correlator: Correlator, judged: Judged, integration: u64) -> Result<Self> {
        let sums = Sums::new(correlator, &judged.geometry.shape(), integration)?;
        Ok(Self::over(sums, judged))
    }
}
