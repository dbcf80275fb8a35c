//! Lane maps of matrix fragments, as `const fn`s that the CPU tests prove to be bijections.
//!
//! Source: PTX ISA, "Matrix fragments for mma.m16n8k32". In bytes, m16n8k16 with 16-bit elements has the same
//! maps.

/// Place of an element in a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// Row of the matrix.
    pub row: u32,
    /// Column of the matrix; of a K-major operand, its byte.
    pub column: u32,
}

/// Element of the 16 x 32-byte operand A in byte `byte` of word `word` (0..4) of `lane`.
pub const fn a(lane: u32, word: u32, byte: u32) -> Element {
    Element { row: lane / 4 + word % 2 * 8, column: word / 2 * 16 + lane % 4 * 4 + byte }
}

/// Element of the 8 x 32-byte operand B (its columns as rows) in byte `byte` of word `word` (0..2)
/// of `lane`.
pub const fn b(lane: u32, word: u32, byte: u32) -> Element {
    Element { row: lane / 4, column: word * 16 + lane % 4 * 4 + byte }
}

/// Element of the 16 x 8 accumulator in word `word` (0..4) of `lane`.
pub const fn accumulator(lane: u32, word: u32) -> Element {
    Element { row: lane / 4 + word / 2 * 8, column: lane % 4 * 2 + word % 2 }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeSet;

    use super::*;

    fn check_bijection(elements: impl Iterator<Item = Element>, rows: u32, columns: u32) {
        let elements: std::vec::Vec<_> = elements.collect();
        assert_eq!(elements.len() as u32, rows * columns);
        assert!(elements.iter().all(|e| e.row < rows && e.column < columns));
        assert_eq!(elements.iter().copied().collect::<BTreeSet<_>>().len(), elements.len());
    }

    fn places(words: u32, bytes: u32) -> impl Iterator<Item = (u32, u32, u32)> {
        (0..32 * words * bytes).map(move |i| (i / words / bytes, i / bytes % words, i % bytes))
    }

    #[test]
    fn lane_maps_are_bijections() {
        check_bijection(places(4, 4).map(|(lane, word, byte)| a(lane, word, byte)), 16, 32);
        check_bijection(places(2, 4).map(|(lane, word, byte)| b(lane, word, byte)), 8, 32);
        check_bijection(places(4, 1).map(|(lane, word, _)| accumulator(lane, word)), 16, 8);
    }
}
