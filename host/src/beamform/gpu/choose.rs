//! Choice of a kernel and its tile.

use corrust_gpu::{
    abi::{
        Kernel as Entry, Target,
        beamform::{
            BEAMFORMERS, Beamform, CHUNK_VOLTAGES, MMA_SHUFFLE_96X512, Operands,
            TILE_SHUFFLE_96X512, Tile, WARPGROUP_BEAMFORMERS, WarpgroupTile,
        },
    },
    beamform::map,
};

use crate::{
    beamform::{rounding::Rounding, shape::Shape},
    device::gpu::Facts,
    error::{Error, Result},
    kernels::beamform::Kernel,
    sample::Encoding,
    tuning::{self, Tuning},
};

/// A kernel and what it computes at once.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    pub(super) name: Kernel,
    pub(super) kernel: Entry<Beamform>,
    pub(super) beams: usize,
    /// Most bytes of a row of voltages of a launch: those of the tile, or of a partial sum.
    pub(super) row_bytes: usize,
    /// Chunks of weights of a launch: those of the tile.
    pub(super) chunks: usize,
    /// The tile of warps; none for warpgroups.
    pub(super) tile: Option<Tile>,
}

impl Geometry {
    pub(super) fn of_warpgroups((kernel, tile): (Entry<Beamform>, WarpgroupTile)) -> Self {
        Self {
            name: Kernel::Wgmma,
            kernel,
            beams: tile.beams as usize,
            row_bytes: tile.dishes as usize,
            chunks: (tile.dishes / CHUNK_VOLTAGES) as usize,
            tile: None,
        }
    }

    pub(super) fn of_tile((kernel, tile): (Entry<Beamform>, Tile)) -> Self {
        Self {
            name: match tile.operands {
                Operands::Int4 => Kernel::MmaS4,
                _ if tile.transposes => Kernel::MmaShuffle,
                _ => Kernel::Mma,
            },
            kernel,
            beams: tile.beams() as usize,
            row_bytes: tile.row_bytes() as usize,
            chunks: (tile.row_bytes() / CHUNK_VOLTAGES) as usize,
            tile: Some(tile),
        }
    }

    /// About the microseconds of a GPU for 2^20 times of a shape: of all its tiles, and of passing sums on.
    pub(super) fn cost(&self, tuning: &tuning::Beamform, shape: &Shape) -> f64 {
        let groups = shape.beams.div_ceil(self.beams);
        let passes = shape.row_bytes().div_ceil(self.row_bytes);
        let (tiles, beams) = (groups * passes, groups * self.beams);
        tiles as f64 * tuning.tile(self.told_of()) + ((passes - 1) * beams) as f64 * tuning.pass
    }

    /// The kernel under which a table lists the cost: for `ci8` and `cf16` voltages, which tables do not list, the `ci4`
    /// kernel of as many beams and bytes.
    pub(super) fn told_of(&self) -> &'static str {
        let alike = |tile: Tile| {
            tile.operands == Operands::Int8
                && (tile.beams() as usize, tile.row_bytes() as usize)
                    == (self.beams, self.row_bytes)
        };
        match self.operands() {
            Operands::Int8 | Operands::Int4 => self.kernel.entry.name,
            Operands::Ci8 | Operands::Cf16 => {
                let mut tiles = BEAMFORMERS.iter().filter(|(_, tile)| alike(*tile));
                tiles.next().map_or(self.kernel.entry.name, |(kernel, _)| kernel.entry.name)
            }
        }
    }

    pub(super) fn operands(&self) -> Operands {
        self.tile.map_or(Operands::Int8, |tile| tile.operands)
    }

    /// Bytes of a chunk of prepared weights.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.operands().chunk_bytes() as usize
    }

    /// Whether launches are general even where they take all dishes.
    pub(super) fn general(&self, shape: &Shape) -> bool {
        shape.encoding != Encoding::Ci4 || shape.output != Encoding::Ci4.into()
    }

    /// Sums come `1 << scale` times as large as they are.
    pub(super) fn scale(&self) -> u32 {
        if self.operands() == Operands::Int8 { 4 } else { 0 }
    }

    /// Correction of the sums of a beam, from the sums of the parts of its weights.
    pub(super) fn bias(&self, [real, imaginary]: [i32; 2]) -> [i32; 2] {
        match self.tile {
            // Imaginary parts of voltages are in excess of 8.
            Some(tile) if tile.operands == Operands::Int8 => [8 * imaginary, -8 * real],
            _ => [0; 2],
        }
    }

    /// Weight in each byte of chunk `chunk` of the prepared weights, and which byte of it; or in each nibble, the
    /// low ones first.
    pub(super) fn order(&self, chunk: usize) -> Vec<(map::Weight, u32)> {
        let bytes = 0..self.chunk_bytes() as u32;
        let Some(tile) = self.tile else {
            return bytes.map(|byte| (map::warpgroup_weight(byte), 0)).collect();
        };
        let dish_warp = chunk as u32 / tile.chunks % tile.dish_warps;
        match tile.operands {
            Operands::Int8 => bytes.map(|byte| (map::weight(byte, dish_warp), 0)).collect(),
            Operands::Int4 => bytes
                .flat_map(|byte| [(byte, 0), (byte, 1)])
                .map(|(byte, nibble)| (map::nibble_weight(byte, nibble, dish_warp), 0))
                .collect(),
            Operands::Ci8 | Operands::Cf16 => {
                let component = tile.operands.voltage_bytes() / 2;
                bytes.map(|byte| map::wide_weight(byte, component, dish_warp)).collect()
            }
        }
    }
}

/// The kernel that `kernel` names for a shape, weights of an encoding and a rounding, or the quickest: of the tiles
/// that may be chosen, the one with the least [cost](Geometry::cost) by a table. A partial sum is a launch of its own.
pub(super) fn choose(
    facts: &Facts,
    tuning: &Tuning,
    shape: &Shape,
    weights: Encoding,
    rounding: Rounding,
    kernel: Kernel,
) -> Result<Geometry> {
    let is_partial = matches!(rounding, Rounding::Partial(_));
    if is_partial && matches!(kernel, Kernel::Wgmma | Kernel::MmaShuffle) {
        return Err(Error::invalid(format!(
            "kernel {kernel} with rounding {rounding}: expected kernel auto, mma or mma-s4"
        )));
    }
    let tiles = |operands: Operands| {
        let tiles = BEAMFORMERS.iter().filter(move |(_, tile)| tile.operands == operands);
        let tiles = tiles.map(|&row| Geometry::of_tile(row));
        tiles.filter_map(move |of| {
            let row_bytes = rounding.group(of.row_bytes);
            (row_bytes <= of.row_bytes).then_some(Geometry { row_bytes, ..of })
        })
    };
    let of_voltages = match shape.encoding {
        Encoding::Ci8 => Operands::Ci8,
        Encoding::Cf16 => Operands::Cf16,
        _ => Operands::Int8,
    };
    let four_bits = of_voltages == Operands::Int8;
    let warpgroups = || WARPGROUP_BEAMFORMERS.iter().map(|&row| Geometry::of_warpgroups(row));
    let best = |geometries: &mut dyn Iterator<Item = Geometry>| {
        let cost = |geometry: &Geometry| geometry.cost(&tuning.beamform, shape);
        let best = geometries.min_by(|a, b| cost(a).total_cmp(&cost(b)));
        best.expect("every kernel has tiles")
    };
    let (hopper, int4) = (facts.runs(Target::Sm90a), weights == Encoding::Ci4 && four_bits);
    match kernel {
        Kernel::Mma => Ok(best(&mut tiles(of_voltages))),
        Kernel::MmaShuffle => {
            let geometry = Geometry::of_tile((MMA_SHUFFLE_96X512, TILE_SHUFFLE_96X512));
            if geometry.general(shape) || shape.dishes > geometry.row_bytes {
                return Err(Error::invalid(format!(
                    "kernel mma-shuffle with {} dishes, voltages of {}, beams of {}: expected at most {} \
                     dishes, ci4 and ci4",
                    shape.dishes, shape.encoding, shape.output, geometry.row_bytes
                )));
            }
            Ok(geometry)
        }
        Kernel::MmaS4 | Kernel::Wgmma if !four_bits => Err(Error::invalid(format!(
            "kernel {kernel} with voltages of {}: expected voltages of ci4, or kernel auto or mma",
            shape.encoding
        ))),
        Kernel::MmaS4 if int4 => Ok(best(&mut tiles(Operands::Int4))),
        Kernel::MmaS4 => Err(Error::invalid(format!(
            "kernel mma-s4 with weights of {weights}: expected weights of ci4"
        ))),
        Kernel::Wgmma if hopper => Ok(best(&mut warpgroups())),
        Kernel::Wgmma => Err(Error::Device(format!(
            "{}: kernel wgmma needs compute capability 9.0, expected kernel auto or mma",
            facts.name
        ))),
        Kernel::Auto => {
            let others = tiles(Operands::Int4).filter(|_| int4);
            let others = others.chain(warpgroups().filter(|_| hopper && four_bits && !is_partial));
            Ok(best(&mut tiles(of_voltages).chain(others)))
        }
        other => Err(Error::invalid(format!(
            "kernel {other} does not run on a GPU: expected auto, mma, mma-s4, mma-shuffle or wgmma"
        ))),
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::{
        beamform::shape::MAX_DISHES,
        device::{gpu::Gpu, sim::SimGpu},
    };

    /// Shape of `ci4` voltages and beams.
    fn shape(dishes: usize, beams: usize, channels: usize, polarisations: usize) -> Shape {
        let encoding = Encoding::Ci4;
        Shape { dishes, beams, channels, polarisations, encoding, output: encoding.into() }
    }

    /// Dishes, beams, and the quickest kernel for them on an H200.
    const CHOICES: [(usize, usize, &str); 13] = [
        (512, 16, "beamform_mma_16x512"),
        (512, 32, "beamform_wgmma_32x512"),
        (512, 64, "beamform_wgmma_64x512"),
        (512, 96, "beamform_wgmma_96x512"),
        (512, 128, "beamform_wgmma_128x512"),
        (1024, 96, "beamform_wgmma_96x1024"),
        (256, 16, "beamform_mma_16x256"),
        (256, 64, "beamform_wgmma_64x256"),
        (256, 96, "beamform_wgmma_96x256"),
        (128, 96, "beamform_wgmma_96x128"),
        (64, 16, "beamform_mma_16x64"),
        (64, 64, "beamform_mma_64x64"),
        (64, 96, "beamform_wgmma_96x128"),
    ];

    /// The quickest tiles where they were measured.
    #[test]
    fn tiles_are_chosen_by_what_they_cost() {
        let facts = |capability| Facts { capability, ..SimGpu::new().facts().clone() };
        let chosen = |dishes, beams, weights, capability| {
            let shape = shape(dishes, beams, 16, 2);
            let facts = facts(capability);
            let tuning = Tuning::nearest(&facts);
            let chosen = choose(&facts, tuning, &shape, weights, Rounding::Nearest, Kernel::Auto);
            chosen.unwrap().kernel.entry.name
        };
        for (dishes, beams, expected) in CHOICES {
            assert_eq!(chosen(dishes, beams, Encoding::Ci8, (9, 0)), expected);
            assert_eq!(chosen(dishes, beams, Encoding::Ci4, (9, 0)), expected);
        }
        // Without warpgroups, and with int4 where there is.
        assert_eq!(chosen(512, 96, Encoding::Ci8, (8, 0)), "beamform_mma_96x512");
        assert_eq!(chosen(512, 128, Encoding::Ci8, (8, 6)), "beamform_mma_64x512");
        assert_eq!(chosen(512, 96, Encoding::Ci4, (8, 0)), "beamform_mma_s4_96x512");
        assert_eq!(chosen(512, 190, Encoding::Ci4, (8, 6)), "beamform_mma_s4_192x512");
        assert_eq!(chosen(512, 96, Encoding::Ci4, (8, 9)), "beamform_mma_s4_96x512");
        assert_eq!(chosen(512, 96, Encoding::Ci4, (10, 0)), "beamform_mma_96x512");
        assert_eq!(chosen(64, 64, Encoding::Ci4, (8, 0)), "beamform_mma_s4_64x64");
        assert_eq!(chosen(MAX_DISHES, 1, Encoding::Ci8, (8, 0)), "beamform_mma_16x512");
    }

    #[test]
    fn kernels_go_by_their_own_names() {
        let facts = SimGpu::new().facts().clone();
        let shape = shape(64, 64, 1, 1);
        for kernel in [Kernel::Mma, Kernel::MmaS4, Kernel::Wgmma] {
            let tuning = Tuning::nearest(&facts);
            let chosen = |rounding| choose(&facts, tuning, &shape, Encoding::Ci4, rounding, kernel);
            assert_eq!(chosen(Rounding::Nearest).unwrap().name, kernel);
            // A launch has the dishes of a partial sum.
            match chosen(Rounding::Partial(32)) {
                Ok(geometry) => assert_eq!((geometry.name, geometry.row_bytes), (kernel, 32)),
                Err(_) => assert_eq!(kernel, Kernel::Wgmma),
            }
        }
    }
}
