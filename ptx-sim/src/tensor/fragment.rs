//! Lane maps of `mma.sync`, `wgmma` and `ldmatrix` (PTX ISA, "Matrix Fragments").
//!
//! All of them are one map. With `E = 32 / bits` elements to a register, lane `l` of group `g = l / 4`
//! and place `t = l % 4` in it:
//!
//! | operand | register `r`, element `e` | row | column |
//! |---|---|---|---|
//! | A, 8 rows | | `g` | `k = E t + e + 4 E r` |
//! | A, 16 rows | | `g + 8 (r mod 2)` | `k = E t + e + 4 E (r / 2)` |
//! | B | | `k = E t + e + 4 E r` | `g` |
//! | C, D of 32 bits | | `g + 8 (r / 2 mod 2)` | `2 t + r mod 2 + 8 (r / 4)` |
//! | C, D of 16 bits | `e` = 0, 1 | `g + 8 (r mod 2)` | `2 t + e + 8 (r / 2)` |
//!
//! A warp of `wgmma` holds 16 of the 64 rows, those from `16 * (warp mod 4)` on.

use crate::program::MmaKind;
use crate::syntax::ast::Type;

/// Registers of each operand per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    pub a: u32,
    pub b: u32,
    pub c: u32,
}

/// Rows that one warp holds.
pub(crate) fn rows(kind: &MmaKind) -> u32 {
    if kind.m == 64 { 16 } else { kind.m }
}

/// Number of registers of an instruction's operands.
pub(crate) fn registers(kind: &MmaKind) -> Registers {
    let elements = 32 / kind.a.bits();
    let rows = rows(kind);
    let c = rows * kind.n / 32;
    Registers {
        a: rows / 8 * kind.k / (4 * elements),
        b: kind.k / (4 * elements),
        c: if kind.accumulator == Type::F16 { c / 2 } else { c },
    }
}

/// Row and first column of the elements in register `r` of A, for `rows` of 8 or 16.
pub const fn a(rows: u32, bits: u32, lane: u32, r: u32) -> (u32, u32) {
    let elements = 32 / bits;
    let halves = rows / 8;
    (lane / 4 + 8 * (r % halves), elements * (lane % 4) + 4 * elements * (r / halves))
}

/// Column and first row of the elements in register `r` of B.
pub const fn b(bits: u32, lane: u32, r: u32) -> (u32, u32) {
    let elements = 32 / bits;
    (lane / 4, elements * (lane % 4) + 4 * elements * r)
}

/// Row and column of 32-bit accumulator `r`, for `rows` of 8 or 16.
pub const fn c32(rows: u32, lane: u32, r: u32) -> (u32, u32) {
    if rows == 8 {
        (lane / 4, 2 * (lane % 4) + r % 2)
    } else {
        (lane / 4 + 8 * (r / 2 % 2), 2 * (lane % 4) + r % 2 + 8 * (r / 4))
    }
}

/// Row and first of two columns of packed 16-bit accumulators `r`, for 16 rows.
pub const fn c16(lane: u32, r: u32) -> (u32, u32) {
    (lane / 4 + 8 * (r % 2), 2 * (lane % 4) + 8 * (r / 2))
}

/// Row and first of two columns that a lane holds of an 8x8 matrix of `ldmatrix`.
pub const fn ldmatrix(lane: u32) -> (u32, u32) {
    (lane / 4, 2 * (lane % 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Every element of a matrix is held exactly once.
    fn bijection(rows: u32, columns: u32, held: impl Iterator<Item = (u32, u32)>) {
        let mut seen = HashSet::new();
        for (row, column) in held {
            assert!(row < rows && column < columns, "({row}, {column}) in {rows} x {columns}");
            assert!(seen.insert((row, column)), "({row}, {column}) twice");
        }
        assert_eq!(seen.len() as u32, rows * columns);
    }

    #[test]
    fn maps_are_bijections() {
        for bits in [1, 4, 8, 16, 32] {
            let elements = 32 / bits;
            for rows in [8, 16] {
                for steps in [1, 2] {
                    let k = 4 * elements * steps;
                    bijection(
                        rows,
                        k,
                        (0..32).flat_map(|lane| {
                            (0..rows / 8 * steps).flat_map(move |r| {
                                let (row, column) = a(rows, bits, lane, r);
                                (0..elements).map(move |e| (row, column + e))
                            })
                        }),
                    );
                    bijection(
                        8,
                        k,
                        (0..32).flat_map(|lane| {
                            (0..steps).flat_map(move |r| {
                                let (column, row) = b(bits, lane, r);
                                (0..elements).map(move |e| (column, row + e))
                            })
                        }),
                    );
                }
            }
        }
        bijection(8, 8, (0..32).flat_map(|l| (0..2).map(move |r| c32(8, l, r))));
        for n in (8..=256).step_by(8) {
            bijection(16, n, (0..32).flat_map(|l| (0..n / 2).map(move |r| c32(16, l, r))));
            bijection(
                16,
                n,
                (0..32).flat_map(|l| {
                    (0..n / 4).flat_map(move |r| {
                        let (row, column) = c16(l, r);
                        [(row, column), (row, column + 1)]
                    })
                }),
            );
        }
        bijection(
            8,
            8,
            (0..32).flat_map(|l| {
                let (row, column) = ldmatrix(l);
                [(row, column), (row, column + 1)]
            }),
        );
    }

    /// Positions written out in the PTX ISA's figures.
    #[test]
    fn maps_match_the_figures() {
        // m16n8k32 .s8, A: a4..a7 of lane 0 stand in row 8, columns 0..3; a8.. in row 0, columns 16...
        assert_eq!(a(16, 8, 0, 1), (8, 0));
        assert_eq!(a(16, 8, 0, 2), (0, 16));
        assert_eq!(a(16, 8, 31, 3), (15, 28));
        // B: lane 5 holds column 1, rows 4..7 and 20..23.
        assert_eq!(b(8, 5, 0), (1, 4));
        assert_eq!(b(8, 5, 1), (1, 20));
        // C: c2 of lane 7 stands in row 9, column 6.
        assert_eq!(c32(16, 7, 2), (9, 6));
        // m16n8k16 .f16: a2, a3 in row g + 8; a4, a5 in column 8 + 2t.
        assert_eq!(a(16, 16, 6, 1), (9, 4));
        assert_eq!(a(16, 16, 6, 2), (1, 12));
        // m8n8k16 .s8 and m16n8k16 .s8.
        assert_eq!(a(8, 8, 9, 0), (2, 4));
        assert_eq!(a(16, 8, 9, 1), (10, 4));
        // m16n8k256 .b1: 32 columns to a register.
        assert_eq!(a(16, 1, 3, 2), (0, 224));
        // wgmma D: d4 begins the next 8 columns.
        assert_eq!(c32(16, 1, 4), (0, 10));
    }
}
