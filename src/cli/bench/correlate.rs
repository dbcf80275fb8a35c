//! `corrust bench correlate`.

use std::{path::PathBuf, sync::Arc, time::Instant};

use corrust::{
    Correlator, Device, Encoding, Error, Layout, Result,
    correlate::{Kernel, Visibilities, baselines, useful_operations},
    device::{Buffer, Gpu, Stream},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rayon::prelude::*;
use serde::Serialize;

use super::{Machine, Record, Times, digits, introduce, say};

/// Time the correlator's kernels over numbers of inputs
///
/// `kernel`: the kernel alone, on time-contiguous samples in device memory. `from tcn`: from samples in
/// the order of packets in device memory, corner turn included. `from host`: from tcn samples in host
/// memory to sums in device memory, copies included. Useful operations are 8 N(N+1)/2 C T.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// auto, cuda, cuda:1 or cpu
    #[arg(long, default_value_t = Device::Auto)]
    device: Device,
    /// Numbers of inputs
    #[arg(long, value_delimiter = ',', default_values_t = [128, 256, 512, 1024, 2048])]
    inputs: Vec<usize>,
    /// Channels; by default about as many as make the work of 20 channels of 2048 inputs
    #[arg(long)]
    channels: Option<usize>,
    /// Times
    #[arg(long, default_value_t = 3072)]
    times: usize,
    /// Encodings
    #[arg(long, value_delimiter = ',', default_values_t = [Encoding::Ci8])]
    encoding: Vec<Encoding>,
    /// Kernels
    #[arg(long, value_delimiter = ',', default_values_t = [Kernel::Auto])]
    kernel: Vec<Kernel>,
    /// Runs that count
    #[arg(long, default_value_t = 7)]
    repeats: usize,
    /// File to write the results and the machine's facts to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one kernel did at one size.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    encoding: String,
    inputs: usize,
    channels: usize,
    times: usize,
    useful_operations: f64,
    /// `kernel`, `from tcn`, `from host`.
    what: &'static str,
    seconds: Times,
    useful_tops: f64,
}

impl Args {
    /// Runs the benchmark.
    pub fn run(self) -> Result<()> {
        if self.times == 0 || self.repeats == 0 {
            return Err(Error::invalid("--times and --repeats: expected 1 or more, found 0"));
        }
        if self.inputs.contains(&0) {
            return Err(Error::invalid("--inputs: expected 1 or more, found 0"));
        }
        let gpu = self.device.open()?;
        let name = match &gpu {
            Some(gpu) => gpu.facts().name.clone(),
            None => Correlator::builder(1, 1).device(Device::Cpu).build()?.device_name().to_owned(),
        };
        introduce(self.device, &name);
        say(format_args!(
            "{:<16} {:<10} {:>6} {:>6} {:>6}  {:<9} {:>10} {:>8} {:>12}",
            "kernel", "encoding", "N", "C", "T", "what", "median ms", "spread", "useful TOPS"
        ));
        let mut rows = Vec::new();
        for &encoding in &self.encoding {
            for &inputs in &self.inputs {
                self.case(gpu.as_ref(), encoding, inputs, &mut rows)?;
            }
        }
        let machine = Machine::new(&name, gpu.as_ref().map(|gpu| gpu.facts()));
        match &self.json {
            Some(path) => Record { machine, rows }.write(path),
            None => Ok(()),
        }
    }

    /// All kernels at one size.
    fn case(
        &self,
        gpu: Option<&Arc<dyn Gpu>>,
        encoding: Encoding,
        inputs: usize,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        // A CPU does in a second what a GPU does in a millisecond.
        let work = if gpu.is_some() { 20.0 } else { 0.2 } * baselines(2048) as f64;
        let channels = self
            .channels
            .unwrap_or_else(|| ((work / baselines(inputs) as f64).round() as usize).clamp(1, 2048));
        let builder =
            |layout| Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
        let mut row = |kernel: Kernel, what, seconds: Times| {
            let operations = useful_operations(inputs, channels, self.times as u64);
            let row = Row {
                kernel: kernel.to_string(),
                encoding: encoding.to_string(),
                inputs,
                channels,
                times: self.times,
                useful_operations: operations,
                what,
                seconds,
                useful_tops: operations / seconds.median * 1e-12,
            };
            say(format_args!(
                "{:<16} {:<10} {inputs:>6} {channels:>6} {:>6}  {what:<9} {:>10} {:>7.1}% {:>12}",
                row.kernel,
                row.encoding,
                self.times,
                digits(seconds.median * 1e3),
                100.0 * (seconds.most - seconds.least) / seconds.median,
                digits(row.useful_tops)
            ));
            rows.push(row);
        };

        let samples = random(encoding, inputs * channels * self.times);
        for layout in [Layout::Cnt, Layout::Tcn] {
            let expected = first_channel(&samples, encoding, layout, inputs, channels)?;
            for &kernel in &self.kernel {
                let Some(gpu) = gpu else {
                    let mut plan = builder(layout).device(Device::Cpu).kernel(kernel).build()?;
                    let seconds = Times::of(self.repeats, || {
                        plan.reset();
                        let start = Instant::now();
                        plan.accumulate(&samples)?;
                        Ok(start.elapsed())
                    })?;
                    check(&plan.dump()?.visibilities, &expected)?;
                    let what = if layout == Layout::Cnt { "kernel" } else { "from tcn" };
                    row(plan.kernel(), what, seconds);
                    continue;
                };
                let mut plan = builder(layout).gpu(gpu.clone()).kernel(kernel).build()?;
                let stream = Stream::default();
                let buffer = Buffer::new(gpu, samples.len())?;
                buffer.upload(stream, &samples)?;
                let seconds = Times::of(self.repeats, || {
                    plan.reset();
                    gpu.time(stream, &mut || {
                        // SAFETY: the buffer holds the samples until the plan is dumped.
                        unsafe { plan.accumulate_device(buffer.address(), self.times, stream) }
                    })
                })?;
                check(&plan.dump()?.visibilities, &expected)?;
                let what = if layout == Layout::Cnt { "kernel" } else { "from tcn" };
                row(plan.kernel(), what, seconds);
                if layout == Layout::Tcn {
                    let seconds = Times::of(self.repeats, || {
                        plan.reset();
                        let start = Instant::now();
                        plan.accumulate(&samples)?;
                        plan.wait()?;
                        Ok(start.elapsed())
                    })?;
                    check(&plan.dump()?.visibilities, &expected)?;
                    row(plan.kernel(), "from host", seconds);
                }
            }
        }
        Ok(())
    }
}

/// Random bytes; for `cf16` halves between -2 and 2.
fn random(encoding: Encoding, samples: usize) -> Vec<u8> {
    const PIECE: usize = 1 << 20;
    let mut bytes = vec![0; samples * encoding.bytes()];
    bytes.par_chunks_mut(PIECE).enumerate().for_each(|(seed, piece)| {
        StdRng::seed_from_u64(seed as u64).fill(piece);
        if encoding == Encoding::Cf16 {
            for half in piece.chunks_exact_mut(2) {
                half[1] &= 0xbf;
            }
        }
    });
    bytes
}

/// The first channel's visibilities, by the CPU.
fn first_channel(
    samples: &[u8],
    encoding: Encoding,
    layout: Layout,
    inputs: usize,
    channels: usize,
) -> Result<Visibilities> {
    let row = inputs * encoding.bytes();
    let channel: Vec<u8> = match layout {
        Layout::Cnt => samples[..samples.len() / channels].to_vec(),
        Layout::Tcn => {
            samples.chunks(row * channels).flat_map(|time| &time[..row]).copied().collect()
        }
    };
    let mut plan = Correlator::builder(inputs, 1)
        .encoding(encoding)
        .layout(layout)
        .device(Device::Cpu)
        .build()?;
    plan.accumulate(&channel)?;
    Ok(plan.dump()?.visibilities)
}

/// Checks that the first channel is as expected: exactly, or to a thousandth for `cf16`.
fn check(found: &Visibilities, expected: &Visibilities) -> Result<()> {
    let right = match (found, expected) {
        (Visibilities::Integer(found), Visibilities::Integer(expected)) => {
            found.row(0) == expected.row(0)
        }
        (Visibilities::Float(found), Visibilities::Float(expected)) => {
            let norm = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>().sqrt();
            let pairs = || found.row(0).into_iter().zip(expected.row(0));
            let error = norm(&mut pairs().map(|(a, b)| f64::from((a - b).norm_sqr())));
            let size = norm(&mut pairs().map(|(_, b)| f64::from(b.norm_sqr())));
            error <= 1e-3 * size
        }
        _ => false,
    };
    if right {
        Ok(())
    } else {
        Err(Error::Device(
            "the kernel's answer differs from the CPU's: its time means nothing".into(),
        ))
    }
}
