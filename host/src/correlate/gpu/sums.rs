//! Sums of a plan in a GPU's memory.
//!
//! Integer sums stay in 32 bits only as long as they cannot overflow whatever the samples, and are then added to 64-bit
//! ones. Sums of `cf16` do so before they are rounded too often: they stay in the matrix units, which truncate, for 128
//! times, are added in f32 over at most 64 such sums and 8 launches ([`LAUNCH_HALVES`]), and in f64 beyond.
//! `docs/layouts.md` has the bound.

use std::sync::Arc;

use corrust_gpu::abi::correlate::{
    Correlate, LAUNCH_HALVES, LAUNCH_TIMES, LAUNCH_WORDS, NIBBLE_TIMES, WIDEN, WIDEN_BASELINES,
    WIDEN_BITS, WIDEN_F32, Widen, WidenBits, mode,
};
use num_complex::Complex;
use rayon::prelude::*;

use super::{
    family::Work,
    piece::{self, Piece},
};
use crate::{
    correlate::{
        baselines::baselines,
        ones::widen_ones,
        visibilities::{Room, VisibilitiesMut},
    },
    device::{
        gpu::{Gpu, Rows, Stream},
        memory::Buffer,
    },
    error::Result,
    sample::Encoding,
    samples::shape::Shape,
};

/// Progress of a gate's sums.
#[derive(Clone, Copy, Default)]
struct Gate {
    /// Times summed in the gate's 32-bit sums: none means that their contents are undefined.
    partial_times: usize,
    /// Launches that summed them.
    partial_launches: usize,
    /// Whether the gate's 64-bit sums hold any.
    total_used: bool,
}

impl Gate {
    fn is_empty(&self) -> bool {
        self.partial_times == 0 && !self.total_used
    }

    /// Whether the 32-bit sums of samples of `encoding` are to be widened before `times` times are added.
    fn is_full(&self, encoding: Encoding, times: usize) -> bool {
        let most = match encoding {
            Encoding::Cf16 => return self.partial_launches == LAUNCH_HALVES.1 as usize,
            Encoding::Ci4 | Encoding::Ci4Offset => NIBBLE_TIMES as usize,
            Encoding::Ci8 | Encoding::B1 | Encoding::B2 => launch_times(encoding),
        };
        self.partial_times + times > most
    }
}

/// Most time samples of a launch (words, for bits) whose sums fit 32 bits.
pub(super) fn launch_times(encoding: Encoding) -> usize {
    let times = match encoding {
        Encoding::B1 => LAUNCH_WORDS,
        Encoding::Cf16 => LAUNCH_HALVES.0,
        _ => LAUNCH_TIMES,
    };
    times as usize
}

/// Sums `[gate][channel][baseline]`.
pub(super) struct Sums {
    gpu: Arc<dyn Gpu>,
    /// Shape of the operands: bits have a row for each plane.
    shape: Shape,
    /// Rows of an input.
    planes: usize,
    gates: Vec<Gate>,
    /// `[gate][channel][baseline]` pairs of i32 (`cf16`: f32).
    partial: Buffer,
    /// Sums that the imaginary parts of `partial` lack by column: `[gate][channel][input]` of i32.
    row_sums: Option<Buffer>,
    /// `[gate][channel][baseline]` pairs of i64 (`cf16`: f64), made when first needed.
    total: Option<Buffer>,
}

impl Sums {
    /// Reserves 32-bit sums of `gates` gates.
    pub(super) fn new(
        gpu: &Arc<dyn Gpu>,
        (shape, planes): (&Shape, usize),
        gates: usize,
        sums_rows: bool,
    ) -> Result<Self> {
        let integers = shape.encoding.is_integer() && shape.encoding != Encoding::B1;
        let row_sums = (sums_rows && integers)
            .then(|| Buffer::new(gpu, 4 * shape.inputs * shape.channels * gates));
        let values = 2 * baselines(shape.inputs) * shape.channels;
        Ok(Self {
            gpu: gpu.clone(),
            shape: *shape,
            planes,
            gates: vec![Gate::default(); gates],
            partial: Buffer::new(gpu, values.saturating_mul(4 * gates))?,
            row_sums: row_sums.transpose()?,
            total: None,
        })
    }

    pub(super) fn gates(&self) -> usize {
        self.gates.len()
    }

    /// Whether nothing of a gate was summed since the last dump.
    pub(super) fn is_empty(&self, gate: usize) -> bool {
        self.gates[gate].is_empty()
    }

    /// Real numbers in the 32-bit sums of a gate.
    pub(super) fn values(&self) -> usize {
        2 * baselines(self.shape.inputs) * self.shape.channels
    }

    /// Real numbers in the visibilities of a gate.
    fn totals(&self) -> usize {
        2 * baselines(self.shape.inputs / self.planes) * self.shape.channels
    }

    /// Work on rows of a piece, with the tiles of a channel and room for the products.
    pub(super) fn work<'a>(
        &mut self,
        stream: Stream,
        piece: &'a Piece<'a>,
        rows: piece::Rows,
        tiles: u32,
    ) -> Result<Work<'a>> {
        let &Piece { gate, first_channel, .. } = piece;
        let fresh = first_channel == 0 && self.is_empty(gate);
        // One piece may be a part of the channels: all parts of a time belong together.
        if first_channel == 0 && self.gates[gate].is_full(self.shape.encoding, piece.times()) {
            self.widen(gate, stream)?;
        }
        let Shape { inputs, channels, .. } = self.shape;
        let offset = 4 * self.values() * gate + 8 * baselines(inputs) * first_channel;
        let row = 4 * inputs * (gate * channels + first_channel);
        let correlate = Correlate {
            samples: rows.samples,
            visibilities: self.partial.address() + offset as u64,
            row_sums: self.row_sums.as_ref().map_or(0, |sums| sums.address() + row as u64),
            row_stride: rows.row_stride as u64,
            row_bytes: rows.row_bytes as u32,
            inputs: inputs as u32,
            mode: if self.gates[gate].partial_times == 0 { mode::STORE } else { mode::ADD },
            opaque_zero: 0,
        };
        let tiles = tiles * piece.channels() as u32;
        let excess = if rows.offset { 0x8888_8888 } else { 0 };
        Ok(Work { stream, piece, correlate, tiles, excess, fresh })
    }

    /// Notes that the products of a piece were added; its last channels end a launch.
    pub(super) fn added(&mut self, piece: &Piece<'_>) {
        if piece.first_channel + piece.channels() == self.shape.channels {
            self.gates[piece.gate].partial_times += piece.times();
            self.gates[piece.gate].partial_launches += 1;
        }
    }

    /// Forgets the sums of a gate.
    pub(super) fn reset(&mut self, gate: usize) {
        self.gates[gate] = Gate::default();
    }

    /// Adds the 32-bit sums of a gate to its 64-bit ones, or rounds these ([`mode::ROUND`]).
    fn add_to_total(&self, gate: usize, stream: Stream, mode: u32) -> Result<()> {
        let (values, totals) = (self.values(), self.totals());
        let total = self.total.as_ref().expect("made before");
        let Shape { inputs, channels, encoding, .. } = self.shape;
        let place = |buffer: &Buffer, bytes: usize| buffer.address() + (bytes * gate) as u64;
        let (partial, total) = (place(&self.partial, 4 * values), place(total, 8 * totals));
        let blocks = baselines(inputs / self.planes).div_ceil(WIDEN_BASELINES as usize) * channels;
        let blocks = blocks as u32;
        if encoding == Encoding::B1 {
            let times = (self.gates[gate].partial_times * encoding.times()) as u32;
            let (inputs, planes) = ((inputs / self.planes) as u32, self.planes as u32);
            let parameters = WidenBits { partial, total, inputs, times, mode, planes };
            // SAFETY: the buffers hold the shape's sums.
            return unsafe { self.gpu.launch(stream, &WIDEN_BITS, blocks, &parameters) };
        }
        let sums = self.row_sums.as_ref();
        let row_sums = sums.map_or(0, |sums| place(sums, 4 * inputs * channels));
        let parameters = Widen { partial, total, row_sums, inputs: inputs as u32, mode };
        let kernel = if encoding == Encoding::Cf16 { &WIDEN_F32 } else { &WIDEN };
        // SAFETY: as above.
        unsafe { self.gpu.launch(stream, kernel, blocks, &parameters) }
    }

    /// Folds the 32-bit sums of a gate into its 64-bit ones.
    fn widen(&mut self, gate: usize, stream: Stream) -> Result<()> {
        if self.gates[gate].partial_times == 0 {
            return Ok(());
        }
        if self.total.is_none() {
            let bytes = self.totals().saturating_mul(8 * self.gates.len());
            self.total = Some(Buffer::new(&self.gpu, bytes)?);
        }
        let mode = if self.gates[gate].total_used { mode::ADD } else { mode::STORE };
        self.add_to_total(gate, stream, mode)?;
        self.gates[gate] = Gate { total_used: true, ..Gate::default() };
        Ok(())
    }

    /// Folds the sums of a gate into those of single precision, rounded once.
    fn round(&mut self, gate: usize, stream: Stream) -> Result<()> {
        if !self.gates[gate].total_used {
            return Ok(());
        }
        self.widen(gate, stream)?;
        self.add_to_total(gate, stream, mode::ROUND)
    }

    /// The 32-bit sums of a gate, brought to the host and widened there.
    fn widen_here(&self, gate: usize, stream: Stream, sums: &mut [Complex<i64>]) -> Result<()> {
        let Shape { channels, inputs, encoding, .. } = self.shape;
        let mut partial = vec![Complex::<i32>::default(); channels * baselines(inputs)];
        self.download(&self.partial, gate, stream, &mut partial)?;
        if encoding == Encoding::B1 {
            let times = self.gates[gate].partial_times * encoding.times();
            widen_ones(&partial, (inputs, self.planes), times as i64, sums);
            return Ok(());
        }
        let mut row_sums = vec![0_i32; channels * inputs];
        if let Some(sums) = &self.row_sums {
            self.download(sums, gate, stream, &mut row_sums)?;
        }
        sums.par_chunks_mut(baselines(inputs))
            .zip(partial.par_chunks(baselines(inputs)))
            .zip(row_sums.par_chunks(inputs))
            .for_each(|((sums, partial), row_sums)| {
                let mut baselines = sums.iter_mut().zip(partial);
                for i in 0..inputs {
                    // Row i of the triangle has a column for each input up to i.
                    for (lacking, (sum, partial)) in row_sums[..=i].iter().zip(&mut baselines) {
                        let imaginary = i64::from(partial.im) + i64::from(*lacking);
                        *sum = Complex::new(partial.re.into(), imaginary);
                    }
                }
            });
        Ok(())
    }

    /// Copies the part of a gate out of a buffer that holds one for each.
    fn download<T: bytemuck::Pod>(
        &self,
        buffer: &Buffer,
        gate: usize,
        stream: Stream,
        values: &mut [T],
    ) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        let address = buffer.address() + (gate * bytes.len()) as u64;
        // SAFETY: the buffer holds as much for every gate.
        unsafe { self.gpu.download(stream, address, bytes) }
    }

    /// Brings a gate's sums to the host; it starts again from zero.
    pub(super) fn dump(&mut self, gate: usize, stream: Stream, room: Room<'_>) -> Result<()> {
        let Gate { partial_times, total_used, .. } = self.gates[gate];
        match room {
            Room::Float(sums) if !self.is_empty(gate) => {
                self.round(gate, stream)?;
                self.download(&self.partial, gate, stream, sums)?;
            }
            Room::Float(sums) => sums.fill(Complex::default()),
            Room::Integer(sums) if total_used => {
                self.widen(gate, stream)?;
                let total = self.total.as_ref().expect("total_used");
                self.download(total, gate, stream, sums)?;
            }
            Room::Integer(sums) if partial_times > 0 => self.widen_here(gate, stream, sums)?,
            Room::Integer(sums) => sums.fill(Complex::default()),
        }
        self.reset(gate);
        Ok(())
    }

    /// Checks that room in the GPU's memory fits all gates. Returns its address, stream, and bytes of a real number.
    pub(super) fn check_room(&self, room: &VisibilitiesMut<'_>) -> Result<(u64, Stream, usize)> {
        let all = self.gates.len();
        match room {
            VisibilitiesMut::Integer(room) => {
                room.check(&self.gpu, "visibilities", self.totals() / 2 * all)?;
                Ok((room.read().address(), room.read().stream(), 8))
            }
            VisibilitiesMut::Float(room) => {
                room.check(&self.gpu, "visibilities", self.values() / 2 * all)?;
                Ok((room.read().address(), room.read().stream(), 4))
            }
        }
    }

    /// Copies a gate's sums to room that [was checked](Self::check_room); it starts again from zero.
    pub(super) fn copy(
        &mut self,
        gate: usize,
        (address, stream, size): (u64, Stream, usize),
    ) -> Result<()> {
        let bytes = size * self.totals();
        let to = address + (gate * bytes) as u64;
        let empty = self.is_empty(gate);
        match size {
            8 => self.widen(gate, stream)?,
            _ => self.round(gate, stream)?,
        }
        let sums = if size == 8 { self.total.as_ref() } else { Some(&self.partial) };
        match sums.filter(|_| !empty) {
            // SAFETY: both have room for a gate's sums at this place.
            Some(sums) => unsafe {
                let from = sums.address() + (gate * bytes) as u64;
                self.gpu.copy_rows(stream, to, from, &Rows::one(bytes))?;
            },
            // SAFETY: as above.
            None => unsafe { self.gpu.set_rows(stream, to, &Rows::one(bytes), 0)? },
        }
        self.reset(gate);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_widened_before_one_of_the_largest_products_is_too_many() {
        for (encoding, power) in
            [(Encoding::Ci8, 2 * 128_u64.pow(2)), (Encoding::Ci4, 128), (Encoding::Ci4Offset, 128)]
        {
            let after = |partial_times| Gate { partial_times, ..Gate::default() };
            // Whole steps of 64 times.
            let most = ((1 << 31) - 1) / power as usize;
            let most = if encoding == Encoding::Ci8 { most / 64 * 64 } else { most };
            for times in [1, 3072] {
                assert!(!after(most - times).is_full(encoding, times), "{encoding}");
                assert!(after(most - times + 1).is_full(encoding, times), "{encoding}");
            }
        }
    }
}
