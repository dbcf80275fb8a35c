//! Weights on the device.

use corrust_gpu::{
    abi::beamform::{CHUNK_VOLTAGES, Operands, ROW_BEAMS},
    beamform::map,
};
use rayon::prelude::*;

use super::choose::Geometry;
use crate::beamform::{encode::weight_bytes, shape::Shape};

/// Order of the weights of a shape on the device.
pub(super) struct Tiling {
    pub(super) geometry: Geometry,
    pub(super) streams: usize,
    /// Groups of beams: tiles along the beams.
    pub(super) groups: usize,
    /// Launches: tiles along the dishes.
    pub(super) passes: usize,
    /// Chunks of dishes of one row tile of 16 beams.
    pub(super) weight_chunks: usize,
}

impl Tiling {
    pub(super) fn new(shape: &Shape, geometry: Geometry) -> Self {
        let passes = shape.row_bytes().div_ceil(geometry.row_bytes);
        Self {
            geometry,
            streams: shape.streams(),
            groups: shape.beams.div_ceil(geometry.beams),
            passes,
            weight_chunks: passes * geometry.chunks,
        }
    }

    pub(super) fn padded_beams(&self) -> usize {
        self.groups * self.geometry.beams
    }

    /// Pairs of a stream and a padded beam.
    pub(super) fn rows(&self) -> usize {
        self.streams * self.padded_beams()
    }

    pub(super) fn weight_bytes(&self) -> usize {
        self.rows() / ROW_BEAMS as usize * self.weight_chunks * self.geometry.chunk_bytes()
    }

    /// Bytes of partial sums of a padded beam and time.
    pub(super) fn partial(&self) -> usize {
        if self.passes > 1 { 8 } else { 0 }
    }

    /// The weights as the kernels read them.
    pub(super) fn prepare(&self, shape: &Shape, weights: &[u8]) -> Vec<u8> {
        let (weight, component) = (weight_bytes(shape.encoding), weight_bytes(shape.encoding) / 2);
        let chunk_dishes = CHUNK_VOLTAGES as usize / shape.encoding.bytes();
        let pass_dishes = self.geometry.row_bytes / shape.encoding.bytes();
        let orders: Vec<Vec<(map::Weight, u32)>> =
            (0..self.weight_chunks).map(|chunk| self.geometry.order(chunk)).collect();
        let tiles = self.padded_beams() / ROW_BEAMS as usize;
        let mut prepared = vec![0; self.weight_bytes()];
        prepared.par_chunks_exact_mut(self.geometry.chunk_bytes()).enumerate().for_each(
            |(index, bytes)| {
                let (tile, chunk) = (index / self.weight_chunks, index % self.weight_chunks);
                let (stream, tile) = (tile / tiles, tile % tiles);
                let first_beam = tile * ROW_BEAMS as usize;
                let (pass, within) =
                    (chunk / self.geometry.chunks, chunk % self.geometry.chunks * chunk_dishes);
                let value = |&(place, byte): &(map::Weight, u32)| {
                    let beam = first_beam + place.beam as usize;
                    // Dish of its launch, and of all.
                    let place_of_launch = within + place.dish as usize;
                    let dish = pass * pass_dishes + place_of_launch;
                    if beam < shape.beams && place_of_launch < pass_dishes && dish < shape.dishes {
                        let index = (stream * shape.beams + beam) * shape.dishes + dish;
                        weights[index * weight + place.part as usize * component + byte as usize]
                    } else {
                        0
                    }
                };
                let order = &orders[chunk];
                if self.geometry.operands() == Operands::Int4 {
                    for (byte, [low, high]) in bytes.iter_mut().zip(order.as_chunks().0) {
                        *byte = value(low) & 15 | value(high) << 4;
                    }
                } else {
                    bytes.iter_mut().zip(order).for_each(|(byte, place)| *byte = value(place));
                }
            },
        );
        prepared
    }
}
