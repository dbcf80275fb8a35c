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
    /// The same of what each further slice of a tile waits for the others, whose sums are the same in any order.
    const WAIT_STEPS: u32 = 1;

    /// No tile is cut.
    pub(super) fn none(tiles: u32, steps: u32) -> Self {
        Self { whole: tiles, slices: 1, slice_steps: steps }
    }

    /// The cut of `tiles` tiles of `steps` steps that should take `blocks` blocks the least time, where slices of a tile
    /// are added `in_order` or in any.
    pub(super) fn of(tiles: u32, steps: u32, blocks: u32, in_order: bool) -> Self {
        let last = tiles % blocks;
        let cuts = [last, last + blocks].into_iter().filter(|&cut| last > 0 && cut <= tiles);
        let sliced = cuts.flat_map(|cut| {
            (2..=Self::MOST_SLICES.min(steps)).map(move |slices| {
                let slice_steps = steps.div_ceil(slices);
                // Steps of a slice are rounded up: fewer slices may hold them all.
                Self { whole: tiles - cut, slices: steps.div_ceil(slice_steps), slice_steps }
            })
        });
        let none = Self::none(tiles, steps);
        let all = std::iter::once(none).chain(sliced);
        all.min_by_key(|cut| cut.time(tiles, steps, blocks, in_order)).unwrap_or(none)
    }

    /// Units of `tiles` tiles.
    pub(super) fn units(&self, tiles: u32) -> u32 {
        self.whole + (tiles - self.whole) * self.slices
    }

    /// Time that blocks take, in steps.
    fn time(&self, tiles: u32, steps: u32, blocks: u32, in_order: bool) -> u64 {
        let wait = if in_order { Self::STORE_STEPS } else { Self::WAIT_STEPS };
        let rounds = |units: u32, steps: u32| {
            u64::from(units.div_ceil(blocks)) * u64::from(steps + Self::STORE_STEPS)
        };
        rounds(self.whole, steps)
            + rounds(self.units(tiles) - self.whole, self.slice_steps)
            + u64::from((self.slices - 1) * wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All times of all tiles are in one unit, and no cut takes longer than none.
    #[test]
    fn slices_cover_the_times_of_their_tiles() {
        for (blocks, in_order) in [(1, false), (4, true), (78, false), (132, true), (132, false)] {
            for tiles in (1..=400).chain([2720, 21_760]) {
                for steps in [1, 2, 3, 7, 48, 128, 1023] {
                    let cut = Cut::of(tiles, steps, blocks, in_order);
                    let Cut { whole, slices, slice_steps } = cut;
                    assert!(whole <= tiles && tiles - whole <= Cut::MOST_TILES * blocks);
                    let covered = slices * slice_steps;
                    assert!(covered >= steps && covered - slice_steps < steps, "{cut:?}");
                    let none = Cut::none(tiles, steps);
                    let [time, before] =
                        [cut, none].map(|cut| cut.time(tiles, steps, blocks, in_order));
                    assert!(time < before || cut == none, "{tiles}, {steps}, {blocks}: {cut:?}");
                }
            }
        }
    }

    #[test]
    fn a_partial_round_is_cut_where_that_is_quicker() {
        // 3072 times of `ci8` on the blocks of an H200: 2048 inputs in tiles of 128 x 192, and 256 in those of 128 x 128.
        let large = |channels: u32| Cut::of(96 * channels, 48, 132, false);
        let small = |channels: u32| Cut::of(3 * channels, 48, 132, false);
        assert_eq!(large(1), Cut::none(96, 48));
        assert_eq!(large(2), Cut { whole: 132, slices: 2, slice_steps: 24 });
        // Whole rounds.
        assert_eq!(large(11), Cut::none(1056, 48));
        assert_eq!(small(4).whole, 0);
        assert_eq!(small(16), Cut { whole: 0, slices: 2, slice_steps: 24 });
        // Slices that wait for each other are fewer.
        assert!(Cut::of(12, 48, 132, true).slices < small(4).slices);
        // One step has no slices.
        assert_eq!(Cut::of(3, 1, 132, false).slices, 1);
    }
}
