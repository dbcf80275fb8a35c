//! Limits of a GPU: the rates of its instructions and memories.
//!
//! Every kernel's answer is compared with plain loops on the host, so that no rate is of work that was
//! left out.

use std::{collections::BTreeMap, sync::Arc};

use corrust_gpu::{
    abi::limits::{
        CEILINGS, CHAINS, COPY, Ceiling, CopyWords, PANEL_ROW_BYTES, PANELS, ROTATED_LANES, Repeat,
        SHARED_READS, STEPS, WARP_FRAGMENTS,
    },
    tile::fragment,
};
use corrust_host::{
    Result,
    device::{Buffer, Gpu, LockedBytes, Rows, Stream},
};
use half::f16;
use rayon::prelude::*;

use crate::{
    case::{BenchDevice, Bound, Case, Clock, Subject, Work},
    data::{random_bytes, random_halves},
    record::{Row, Share},
};

/// Name of the system in records.
pub const SYSTEM: &str = "limits";

/// Rates by name: operations or bytes a second.
#[derive(Clone, Debug, Default)]
pub struct Limits(BTreeMap<String, f64>);

impl Limits {
    /// Limits that rows of this system have measured.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let rate = |row: &Row| (row.useful_operations + row.bytes) / row.seconds.median;
        let rows = rows.into_iter().filter(|row| row.system == SYSTEM && row.build.is_none());
        Self(rows.map(|row| (row.kernel.clone(), rate(row))).collect())
    }

    /// A rate by its name.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// The bound that takes longest, against a time taken; nothing if a limit is unknown.
    pub fn share(&self, bounds: &[Bound], seconds: f64) -> Option<Share> {
        let times: Option<Vec<(&str, f64)>> = bounds
            .iter()
            .map(|bound| {
                let known = bound.limits.iter().find_map(|&name| Some((name, self.rate(name)?)));
                known.map(|(name, rate)| (name, bound.work / rate))
            })
            .collect();
        let (limit, least) = times?.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Share { limit: limit.to_owned(), share: least / seconds })
    }
}

/// Every limit that a GPU may have; none without a GPU.
pub fn cases(place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let Some(gpu) = &place.gpu else { return Vec::new() };
    let ceilings = CEILINGS
        .iter()
        .filter(|(_, ceiling)| gpu.facts().runs(ceiling.kernel.entry.target))
        .map(|&(name, ceiling)| Box::new(Instruction { name, ceiling }) as Box<dyn Case>);
    let copies = [Direction::Device, Direction::ToDevice, Direction::ToHost];
    ceilings.chain(copies.map(|direction| Box::new(direction) as Box<dyn Case>)).collect()
}

/// Type of a kernel's results.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    /// 8-bit integers.
    S8,
    /// 4-bit integers.
    S4,
    /// Single bits.
    B1,
    /// Half precision.
    F16,
}

impl Values {
    fn of(name: &str) -> Self {
        match name.rsplit(' ').next() {
            Some("s4") => Self::S4,
            Some("b1") => Self::B1,
            Some("f16") => Self::F16,
            _ => Self::S8,
        }
    }

    /// Sum of the products of the values in some bytes; exact in f64.
    fn dot(self, a: &[u8], b: &[u8]) -> f64 {
        let nibbles = |byte: u8| [byte as i8 >> 4, (byte << 4) as i8 >> 4].map(f64::from);
        let pairs = || a.iter().zip(b);
        match self {
            Self::S8 => pairs().map(|(&a, &b)| f64::from(a as i8) * f64::from(b as i8)).sum(),
            Self::S4 => pairs()
                .flat_map(|(&a, &b)| {
                    let (a, b) = (nibbles(a), nibbles(b));
                    [a[0] * b[0], a[1] * b[1]]
                })
                .sum(),
            Self::B1 => pairs().map(|(&a, &b)| f64::from((a & b).count_ones())).sum(),
            Self::F16 => {
                let half = |bytes: &[u8]| f16::from_le_bytes([bytes[0], bytes[1]]).to_f64();
                let pairs = a.chunks_exact(2).zip(b.chunks_exact(2));
                pairs.map(|(a, b)| half(a) * half(b)).sum()
            }
        }
    }
}

/// The rate of an instruction.
struct Instruction {
    name: &'static str,
    ceiling: Ceiling,
}

impl Case for Instruction {
    fn system(&self) -> &'static str {
        SYSTEM
    }

    fn label(&self) -> String {
        self.name.to_owned()
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let entry = &self.ceiling.kernel.entry;
        let blocks = gpu.facts().multiprocessors * entry.min_blocks;
        let bytes = self.ceiling.operand_bytes as usize;
        let operands = match Values::of(self.name) {
            Values::F16 => random_halves(bytes),
            _ => random_bytes(bytes),
        };
        let buffer = Buffer::new(gpu, bytes)?;
        buffer.upload(Stream::default(), &operands)?;
        let words = blocks * entry.threads * self.ceiling.results;
        let mut work = Repetition {
            gpu: gpu.clone(),
            name: self.name,
            ceiling: self.ceiling,
            operands,
            buffer,
            results: Buffer::new(gpu, 4 * words as usize)?,
            blocks,
            rounds: 2,
        };
        if !place.simulated() {
            // As many rounds as make a launch's own time no matter.
            const SECONDS: f64 = 4e-3;
            const TRIAL: u32 = 64;
            work.rounds = TRIAL;
            let mut time = || gpu.time(Stream::default(), &mut || work.run());
            time()?;
            let seconds = time()?.as_secs_f64().max(1e-9);
            work.rounds = (f64::from(TRIAL) * SECONDS / seconds).clamp(1.0, 1e7) as u32;
        }
        let amount = self.ceiling.work as f64 * f64::from(work.rounds) * f64::from(blocks);
        let memory = self.name == "shared memory";
        Ok(vec![Subject {
            kernel: self.name.to_owned(),
            auto: true,
            what: "limit",
            clock: Clock::Device,
            sustain: true,
            useful_operations: if memory { 0.0 } else { amount },
            bytes: if memory { amount } else { 0.0 },
            items: (f64::from(work.rounds), "rounds"),
            bounds: Vec::new(),
            work: Box::new(work),
        }])
    }
}

/// A kernel that repeats an instruction.
struct Repetition {
    gpu: Arc<dyn Gpu>,
    name: &'static str,
    ceiling: Ceiling,
    operands: Vec<u8>,
    buffer: Buffer,
    results: Buffer,
    blocks: u32,
    rounds: u32,
}

impl Work for Repetition {
    fn run(&mut self) -> Result<()> {
        let parameters = Repeat {
            operands: self.buffer.address(),
            results: self.results.address(),
            rounds: self.rounds,
            reserved: 0,
        };
        // SAFETY: the buffers are as long as the row of the kernel says.
        unsafe {
            self.gpu.launch(Stream::default(), &self.ceiling.kernel, self.blocks, &parameters)
        }
    }

    fn check(&mut self) -> Result<bool> {
        let mut found = vec![0u32; self.results.bytes() / 4];
        self.results.download(Stream::default(), &mut found)?;
        let threads = self.ceiling.kernel.entry.threads as usize;
        let expected: Vec<Vec<Word>> =
            (0..threads).into_par_iter().map(|thread| self.expected(thread)).collect();
        // Every block has done the same.
        let results = self.ceiling.results as usize;
        let (mut error, mut size) = (0.0, 0.0);
        for (index, words) in found.chunks_exact(results).enumerate() {
            for (&found, expected) in words.iter().zip(&expected[index % threads]) {
                match *expected {
                    Word::Exactly(expected) if found != expected => return Ok(false),
                    Word::Exactly(_) => {}
                    Word::About(expected) => {
                        error += (f64::from(f32::from_bits(found)) - expected).powi(2);
                        size += expected.powi(2);
                    }
                }
            }
        }
        // A sum in single precision loses a part of each addend that grows with the sum.
        let additions = f64::from(self.rounds) * f64::from(STEPS);
        Ok(error <= size * (1e-3 + additions * 2f64.powi(-22)).powi(2))
    }
}

/// A result.
#[derive(Clone, Copy)]
enum Word {
    Exactly(u32),
    /// A sum in single precision.
    About(f64),
}

impl Repetition {
    /// Results of a thread of any block.
    fn expected(&self, thread: usize) -> Vec<Word> {
        let steps = u64::from(self.rounds) * u64::from(STEPS);
        match self.name {
            "dp4a" => self.chains(thread, |factor: u32, constant: u32, sum| {
                let products = factor.to_le_bytes().into_iter().zip(constant.to_le_bytes());
                products.fold(sum, |sum: u32, (a, b)| {
                    sum.wrapping_add_signed(i32::from(a as i8) * i32::from(b as i8))
                })
            }),
            "integer multiply-add" => self.chains(thread, |factor, constant, sum| {
                factor.wrapping_mul(constant).wrapping_add(sum)
            }),
            "shuffle" => self.rotated(thread, 2 * steps),
            "shared memory" => self.reads(thread),
            name if name.starts_with("mma") => self.fragments(thread, steps),
            _ => self.panels(thread, steps / 4),
        }
    }

    /// A product that was added `times` times.
    fn repeated(&self, product: f64, times: u64) -> Word {
        match Values::of(self.name) {
            Values::F16 => Word::About(product * times as f64),
            _ => Word::Exactly((product as i64).wrapping_mul(times as i64) as u32),
        }
    }

    /// Word `word` of the 16 bytes `quad` of a thread.
    fn word(&self, thread: usize, quad: usize, word: usize) -> u32 {
        let threads = self.ceiling.kernel.entry.threads as usize;
        let at = 16 * (quad * threads + thread) + 4 * word;
        let bytes = self.operands[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes)
    }

    fn chains(&self, thread: usize, step: impl Fn(u32, u32, u32) -> u32) -> Vec<Word> {
        let (a, b) = (self.word(thread, 0, 0), self.word(thread, 0, 1));
        (0..CHAINS as usize)
            .flat_map(|chain| {
                let word = |index: usize| self.word(thread, 1 + index / 4, index % 4);
                let (mut x, mut y) = (word(2 * chain), word(2 * chain + 1));
                for _ in 0..u64::from(self.rounds) * u64::from(STEPS) {
                    x = step(y, a, x);
                    y = step(x, b, y);
                }
                [Word::Exactly(x), Word::Exactly(y)]
            })
            .collect()
    }

    /// The second words of chains after `shuffles` rotations, and one before.
    fn rotated(&self, thread: usize, shuffles: u64) -> Vec<Word> {
        let (warp, lane) = (thread / 32 * 32, thread % 32);
        let rotated = ROTATED_LANES as usize;
        let source = |shuffles: u64| match lane < rotated {
            true => warp + (lane + (shuffles % rotated as u64) as usize) % rotated,
            false => thread,
        };
        (0..2 * CHAINS as usize)
            .map(|index| {
                let second = index | 1;
                let from = source(if index == second { shuffles } else { shuffles - 1 });
                Word::Exactly(self.word(from, 1 + second / 4, second % 4))
            })
            .collect()
    }

    fn fragments(&self, thread: usize, steps: u64) -> Vec<Word> {
        let (rows, columns) = (WARP_FRAGMENTS.0 as usize, WARP_FRAGMENTS.1 as usize);
        let warp = thread / 32 * 32;
        // 32 bytes of a row of a fragment, gathered from the lanes that hold them.
        let row = |fragment: usize, row: u32| {
            let mut bytes = [0; 32];
            for (lane, word) in (0..32).flat_map(|lane| (0..4).map(move |word| (lane, word))) {
                let at = fragment::a(lane, word, 0);
                if at.row == row {
                    let value = self.word(warp + lane as usize, fragment, word as usize);
                    bytes[at.column as usize..][..4].copy_from_slice(&value.to_le_bytes());
                }
            }
            bytes
        };
        let column = |fragment: usize, column: u32| {
            let mut bytes = [0; 32];
            for (lane, word) in (0..32).flat_map(|lane| (0..2).map(move |word| (lane, word))) {
                let at = fragment::b(lane, word, 0);
                if at.row == column {
                    let index = 2 * (fragment % 2) + word as usize;
                    let value = self.word(warp + lane as usize, rows + fragment / 2, index);
                    bytes[at.column as usize..][..4].copy_from_slice(&value.to_le_bytes());
                }
            }
            bytes
        };
        let mut words = Vec::new();
        for (a, b) in (0..rows).flat_map(|a| (0..columns).map(move |b| (a, b))) {
            for word in 0..4 {
                let at = fragment::accumulator(thread as u32 % 32, word);
                let product = Values::of(self.name).dot(&row(a, at.row), &column(b, at.column));
                words.push(self.repeated(product, steps));
            }
        }
        words
    }

    fn panels(&self, thread: usize, times: u64) -> Vec<Word> {
        let row = |row: u32| {
            let bytes = PANEL_ROW_BYTES as usize;
            &self.operands[row as usize * bytes..][..bytes]
        };
        (0..self.ceiling.results)
            .map(|word| {
                let at = fragment::accumulator(thread as u32 % 32, word % 4);
                let a = row(thread as u32 / 32 * 16 + at.row);
                let b = row(PANELS.0 + word / 4 * 8 + at.column);
                self.repeated(Values::of(self.name).dot(a, b), times)
            })
            .collect()
    }

    fn reads(&self, thread: usize) -> Vec<Word> {
        let threads = self.ceiling.kernel.entry.threads as usize;
        let quads = threads * SHARED_READS as usize;
        let mut sums = [0u32; 4];
        // How often each 16-byte word is read: rounds begin anew after as many as there are words.
        for start in 0..quads {
            let rounds = (self.rounds as usize + quads - 1 - start) / quads;
            for read in 0..SHARED_READS as usize {
                let quad = (thread + start + threads * read) % quads;
                for (word, sum) in sums.iter_mut().enumerate() {
                    let bytes = self.operands[16 * quad + 4 * word..][..4].try_into();
                    let value = u32::from_le_bytes(bytes.expect("four bytes"));
                    *sum = sum.wrapping_add(value.wrapping_mul(rounds as u32));
                }
            }
        }
        sums.map(Word::Exactly).to_vec()
    }
}

/// The rate of a copy.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// From device memory to device memory: read and written bytes both count.
    Device,
    /// From page-locked host memory.
    ToDevice,
    /// To page-locked host memory.
    ToHost,
}

impl Case for Direction {
    fn system(&self) -> &'static str {
        SYSTEM
    }

    fn label(&self) -> String {
        match self {
            Self::Device => "device copy",
            Self::ToDevice => "host to device",
            Self::ToHost => "device to host",
        }
        .to_owned()
    }

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    fn subjects(&self, place: &BenchDevice) -> Result<Vec<Subject>> {
        let Some(gpu) = &place.gpu else { return Ok(Vec::new()) };
        let bytes = match self {
            _ if place.simulated() => (1 << 16) + 16,
            Self::Device => 1 << 30,
            _ => 1 << 28,
        };
        let values = random_bytes(bytes);
        let device = Buffer::new(gpu, bytes)?;
        device.upload(Stream::default(), &values)?;
        let mut host = gpu.locked_bytes(if *self == Self::Device { 1 } else { bytes })?;
        if *self == Self::ToDevice {
            host.copy_from_slice(&values);
            device.clear(Stream::default())?;
        }
        let target = Buffer::new(gpu, if *self == Self::Device { bytes } else { 1 })?;
        Ok(vec![Subject {
            kernel: self.label(),
            auto: true,
            what: "limit",
            clock: Clock::Device,
            sustain: true,
            useful_operations: 0.0,
            bytes: bytes as f64 * if *self == Self::Device { 2.0 } else { 1.0 },
            items: (1.0, "copies"),
            bounds: Vec::new(),
            work: Box::new(Moving {
                gpu: gpu.clone(),
                blocks: gpu.facts().multiprocessors * if place.simulated() { 2 } else { 512 },
                direction: *self,
                values,
                device,
                target,
                host,
            }),
        }])
    }
}

/// A copy.
struct Moving {
    gpu: Arc<dyn Gpu>,
    /// Blocks of the kernel.
    blocks: u32,
    direction: Direction,
    values: Vec<u8>,
    device: Buffer,
    target: Buffer,
    host: LockedBytes,
}

impl Work for Moving {
    fn run(&mut self) -> Result<()> {
        let stream = Stream::default();
        match self.direction {
            Direction::Device => {
                let parameters = CopyWords {
                    source: self.device.address(),
                    target: self.target.address(),
                    words: self.values.len() as u64 / 16,
                };
                // SAFETY: both buffers have as many bytes.
                unsafe { self.gpu.launch(stream, &COPY, self.blocks, &parameters) }
            }
            // SAFETY: as many bytes, which stay where they are until the copy is waited for.
            Direction::ToDevice => unsafe {
                self.gpu.copy_in(
                    stream,
                    self.device.address(),
                    &self.host,
                    &Rows::one(self.host.len()),
                )
            },
            // SAFETY: as above.
            Direction::ToHost => unsafe {
                self.gpu.copy_out(stream, self.device.address(), &mut self.host)
            },
        }
    }

    fn check(&mut self) -> Result<bool> {
        self.gpu.wait(Stream::default())?;
        let mut found = vec![0; self.values.len()];
        match self.direction {
            Direction::Device => self.target.download(Stream::default(), &mut found)?,
            Direction::ToDevice => self.device.download(Stream::default(), &mut found)?,
            Direction::ToHost => found.copy_from_slice(&self.host),
        }
        Ok(found == self.values)
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        // The host's memory must outlive the copies.
        let _ = self.gpu.wait(Stream::default());
    }
}
