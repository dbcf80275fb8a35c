//! Cutting of a launch's last tiles into slices of time.
//!
//! Persistent blocks take tile after tile, and in the last round some have none: of an array's few channels that is much
//! of the time. Tiles of the last round, or of the last two, are cut, so that there are slices for all.

/// How the tiles of a launch are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Tiles that are not cut: the first ones.
    pub(super) whole: u32,
    /// Slices of each of the others.
    pub(super) slices: u32,
    /// Steps of a slice; the last has the rest.
    pub(super) slice_steps: u32,
}

impl Cut {
    /// Most tiles that are cut, for each block.
    pub(super) const MOST_TILES: u32 = 2;
    /// Most slices of a tile.
    const MOST_SLICES: u32 = 16;
    /// Steps that take as long as the writing of a unit's sums.
    const STORE_STEPS: u32 = 8;

    /// The cut of `tiles` tiles of `steps` steps that should take `blocks` blocks the least time.
    pub(super) fn of(tiles: u32, steps: u32, blocks: u32) -> Self {
        let last = tiles % blocks;
        let cuts = [last, last + blocks].into_iter().filter(|&cut| last > 0 && cut <= tiles);
        let sliced = cuts.flat_map(|cut| {
            (2..=Self::MOST_SLICES.min(steps)).map(move |slices| {
                let slice_steps = steps.div_ceil(slices);
                // Fewer where the steps of so many would leave none for the last.
                Self { whole: tiles - cut, slices: steps.div_ceil(slice_steps), slice_steps }
            })
        });
        let none = Self { whole: tiles, slices: 1, slice_steps: steps };
        let all = std::iter::once(none).chain(sliced);
        all.min_by_key(|cut| cut.time(tiles, steps, blocks)).unwrap_or(none)
    }

    /// Units of `tiles` tiles.
    pub(super) fn units(&self, tiles: u32) -> u32 {
        self.whole + (tiles - self.whole) * self.slices
    }

    /// Time that blocks take, in steps.
    fn time(&self, tiles: u32, steps: u32, blocks: u32) -> u64 {
        let rounds = |units: u32, steps: u32| {
            u64::from(units.div_ceil(blocks)) * u64::from(steps + Self::STORE_STEPS)
        };
        rounds(self.whole, steps) + rounds(self.units(tiles) - self.whole, self.slice_steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All times of all tiles are in one unit, and no cut takes longer than none.
    #[test]
    fn slices_cover_the_times_of_their_tiles() {
        for blocks in [1, 4, 78, 132] {
            for tiles in (1..=400).chain([2720, 21_760]) {
                for steps in [1, 2, 3, 7, 48, 128, 1023] {
                    let cut = Cut::of(tiles, steps, blocks);
                    let Cut { whole, slices, slice_steps } = cut;
                    assert!(whole <= tiles && tiles - whole <= Cut::MOST_TILES * blocks);
                    let covered = slices * slice_steps;
                    assert!(covered >= steps && covered - slice_steps < steps, "{cut:?}");
                    let uncut = Cut { whole: tiles, slices: 1, slice_steps: steps };
                    let [time, before] = [cut, uncut].map(|cut| cut.time(tiles, steps, blocks));
                    assert!(time < before || cut == uncut, "{tiles}, {steps}, {blocks}: {cut:?}");
                }
            }
        }
    }

    #[test]
    fn a_partial_round_is_cut_where_that_is_quicker() {
        // An array of 2048 inputs in tiles of 128 x 192, 3072 times, on the blocks of an H200.
        let of_channels = |channels: u32| Cut::of(96 * channels, 48, 132);
        assert_eq!(of_channels(1), Cut { whole: 0, slices: 4, slice_steps: 12 });
        assert_eq!(of_channels(2), Cut { whole: 132, slices: 2, slice_steps: 24 });
        // Whole rounds, and one that lacks 4 of 132 tiles.
        assert_eq!(of_channels(11), Cut { whole: 1056, slices: 1, slice_steps: 48 });
        assert_eq!(Cut::of(128, 48, 132), Cut { whole: 128, slices: 1, slice_steps: 48 });
        // One step has no slices.
        assert_eq!(Cut::of(3, 1, 132).slices, 1);
    }
}
