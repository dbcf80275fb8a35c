//! Instructions of a warp or a block, and those that move bytes.

use super::case::{Case, Random, to_bytes};

macro_rules! op {
    ($random:ident, $name:literal, $target:literal, $threads:literal, $inputs:literal, $formula:expr) => {{
        let words = $random.words($threads * $inputs);
        let rows: Vec<Vec<u32>> = words.chunks($inputs).map(<[u32]>::to_vec).collect();
        let formula: fn(&[Vec<u32>]) -> Vec<u32> = $formula;
        Case {
            entry: $name,
            ptx: include_str!(concat!("../ops/", $name, ".ptx")),
            target: $target,
            grid: 1,
            block: $threads,
            expected: to_bytes(&formula(&rows)),
            input: to_bytes(&words),
        }
    }};
}

fn bit(v: bool) -> u32 {
    u32::from(v)
}

fn ballot(rows: &[Vec<u32>], f: impl Fn(&Vec<u32>) -> bool) -> u32 {
    rows.iter().enumerate().map(|(lane, row)| bit(f(row)) << lane).sum()
}

/// The 8 rows of 16-bit elements of matrix `i`, whose row r is staged unit `7 (8 i + r) mod 32`.
fn staged_matrix(rows: &[Vec<u32>], i: usize) -> [[u32; 8]; 8] {
    std::array::from_fn(|r| {
        let unit = &rows[7 * (8 * i + r) % 32];
        std::array::from_fn(|e| unit[e / 2] >> (16 * (e % 2)) & 0xffff)
    })
}

/// Words that lane `lane` loads of a matrix.
fn loaded(matrix: &[[u32; 8]; 8], lane: usize, transpose: bool) -> u32 {
    let (row, first) = (lane / 4, lane % 4 * 2);
    let element =
        |e: usize| if transpose { matrix[first + e][row] } else { matrix[row][first + e] };
    element(1) << 16 | element(0)
}

/// Staged words after four matrices were stored from registers.
fn stored(rows: &[Vec<u32>], transpose: bool) -> Vec<[u32; 4]> {
    let mut units = vec![[0; 4]; 32];
    for i in 0..4 {
        for (lane, words) in rows.iter().enumerate() {
            for e in 0..2 {
                let value = words[i] >> (16 * e) & 0xffff;
                let (mut row, mut column) = (lane / 4, lane % 4 * 2 + e);
                if transpose {
                    (row, column) = (column, row);
                }
                units[7 * (8 * i + row) % 32][column / 2] |= value << (16 * (column % 2));
            }
        }
    }
    units
}

/// An atomic's result in memory.
fn atomic(i: usize, a: u32, b: u32) -> u32 {
    let signed = |pick_a: bool| if pick_a { a } else { b };
    match i {
        0 => a.wrapping_add(b),
        1 => signed((a as i32) < b as i32),
        2 => a.max(b),
        3 => a & b,
        4 => a | b,
        5 => a ^ b,
        6 | 7 => b,
        8 => a,
        9 => {
            if a >= b {
                0
            } else {
                a + 1
            }
        }
        10 => {
            if a == 0 || a > b {
                b
            } else {
                a - 1
            }
        }
        11 => a.min(b),
        _ => signed(a as i32 > b as i32),
    }
}

fn long(row: &[u32]) -> u64 {
    u64::from(row[1]) << 32 | u64::from(row[0])
}

/// The first `count` bytes of some words, zeros behind.
fn prefix(words: &[u32], count: u32) -> Vec<u32> {
    let bytes: Vec<u8> = to_bytes(words)
        .into_iter()
        .enumerate()
        .map(|(i, b)| if (i as u32) < count { b } else { 0 })
        .collect();
    bytes.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

pub fn cases(random: &mut Random) -> Vec<Case> {
    vec![
        op!(random, "shfl", "sm_80", 32, 2, |x| {
            let mut out = Vec::new();
            for lane in 0..32 {
                let mut put = |source: usize, inside: bool| {
                    out.extend([x[if inside { source } else { lane }][0], bit(inside)]);
                };
                put(lane.wrapping_sub(3), lane >= 3);
                put(lane + 5, lane + 5 < 32);
                put(lane ^ 9, true);
                put(x[lane][1] as usize % 32, true);
                put(lane + 2, lane % 8 + 2 < 8);
            }
            out
        }),
        op!(random, "vote", "sm_80", 32, 1, |x| {
            let votes = ballot(x, |row| row[0] & 1 != 0);
            let (all, any) = (votes == u32::MAX, votes != 0);
            (0..32)
                .flat_map(|lane| {
                    let active = if votes >> lane & 1 != 0 { votes } else { 0 };
                    [votes, bit(all), bit(any), bit(all || !any), active]
                })
                .collect()
        }),
        op!(random, "match", "sm_80", 32, 2, |x| {
            let all = x.iter().all(|row| row[0] & 3 == x[0][0] & 3);
            x.iter()
                .flat_map(|row| {
                    let same = ballot(x, |other| other[0] & 3 == row[0] & 3);
                    [same, if all { u32::MAX } else { 0 }, bit(all), u32::MAX, same]
                })
                .collect()
        }),
        op!(random, "redux", "sm_80", 32, 1, |x| {
            let all = || x.iter().map(|row| row[0]);
            let signed = || x.iter().map(|row| row[0] as i32);
            let results = [
                all().fold(0, u32::wrapping_add),
                signed().min().unwrap_or(0) as u32,
                signed().max().unwrap_or(0) as u32,
                all().min().unwrap_or(0),
                all().max().unwrap_or(0),
                all().fold(u32::MAX, |a, b| a & b),
                all().fold(0, |a, b| a | b),
                all().fold(0, |a, b| a ^ b),
            ];
            [results; 32].concat()
        }),
        op!(random, "elect", "sm_90", 32, 1, |_| {
            (0..32).flat_map(|lane| [0, bit(lane == 0)]).collect()
        }),
        op!(random, "ldmatrix", "sm_80", 32, 4, |x| {
            let matrices: Vec<_> = (0..4).map(|i| staged_matrix(x, i)).collect();
            let mut out = Vec::new();
            for lane in 0..32 {
                for transpose in [false, true] {
                    for count in [1, 2, 4] {
                        out.extend(matrices[..count].iter().map(|m| loaded(m, lane, transpose)));
                    }
                }
            }
            out
        }),
        op!(random, "stmatrix", "sm_90", 32, 4, |x| {
            let (plain, transposed) = (stored(x, false), stored(x, true));
            (0..32).flat_map(|lane| [plain[lane], transposed[lane]].concat()).collect()
        }),
        op!(random, "cp_async", "sm_80", 32, 8, |x| {
            x.iter()
                .flat_map(|row| {
                    let mut out = prefix(&row[..4], row[7] & 15);
                    out.extend(prefix(&row[4..6], row[7] & 7));
                    out.extend([row[6], 0]);
                    out
                })
                .collect()
        }),
        op!(random, "atom", "sm_80", 32, 2, |x| {
            let mut out = Vec::new();
            for row in x {
                let mut thread = [0; 34];
                for i in 0..13 {
                    thread[2 * i] = row[0];
                    thread[2 * i + 1] = atomic(i, row[0], row[1]);
                }
                let twice = long(row).wrapping_mul(2);
                thread[26..30].copy_from_slice(&[
                    twice as u32,
                    (twice >> 32) as u32,
                    row[0],
                    row[1],
                ]);
                thread[30] = 6f32.to_bits();
                out.extend(thread);
            }
            out
        }),
        op!(random, "red", "sm_80", 64, 2, |x| {
            // The words of the output are zero before.
            let all = || x.iter().map(|row| row[0]);
            let sum = x.iter().map(|row| long(row)).fold(0, u64::wrapping_add);
            vec![
                all().fold(0, u32::wrapping_add),
                all().map(|v| v as i32).min().unwrap_or(0).min(0) as u32,
                all().max().unwrap_or(0),
                all().fold(0, |a, b| a | b),
                x.iter().fold(0, |a, row| a ^ row[1]),
                0,
                sum as u32,
                (sum >> 32) as u32,
                64,
                0,
                sum as u32,
                (sum >> 32) as u32,
            ]
        }),
        op!(random, "vector", "sm_80", 32, 8, |x| {
            let mut out = Vec::new();
            for row in x {
                let [b0, b1, b2, b3] = row[0].to_le_bytes().map(u32::from);
                let half = |i: u32| (row[1] >> (16 * i)) as u16 as i16 as i32 as u32;
                out.extend([
                    b3,
                    half(0),
                    half(1),
                    (row[2] >> 8) as u8 as i8 as i32 as u32,
                    row[6],
                    row[6],
                    row[7],
                    b1 << 16 | b0,
                    b0 << 16 | b3 << 8 | b2,
                    row[4],
                    row[5],
                    3,
                ]);
            }
            out
        }),
        op!(random, "barrier", "sm_80", 64, 1, |x| {
            let votes: u32 = x.iter().map(|row| row[0] & 1).sum();
            (0..64)
                .flat_map(|thread: u32| {
                    let passed = if thread < 32 { 32 + (thread ^ 3) } else { 0 };
                    [votes, bit(votes == 64), bit(votes > 0), passed, 0, 0]
                })
                .collect()
        }),
        op!(random, "mbarrier", "sm_80", 64, 1, |x| {
            (0..64).flat_map(|thread| [x[thread ^ 32][0], 1, 0, x[thread ^ 1][0]]).collect()
        }),
        op!(random, "bulk", "sm_90", 32, 4, |x| {
            let mut out: Vec<u32> = (0..32)
                .flat_map(|t| {
                    let mut row = x[t ^ 3].clone();
                    row[0] = row[0].wrapping_add(1);
                    row
                })
                .collect();
            // Written back reversed, with the first word one more.
            for row in x {
                out.extend([row[3], row[2], row[1], row[0].wrapping_add(1)]);
            }
            out
        }),
    ]
}
