//! One case per instruction: a small kernel, random operands, and the result in plain Rust.
//!
//! The simulator is judged by them in this package's tests; the same cases run on a GPU judge the
//! simulator and the expectations against hardware. The kernels stand in `tests/ops/`. Each takes one
//! parameter of 16 bytes: the address of its input and the address of its output.
//!
//! The expectations share no code with the simulator. Floating results with a payload that the PTX ISA
//! leaves open are left out by the choice of operands; NaN results are the canonical 0x7fffffff.

mod case;
mod collective;
mod matrix;
mod scalar;

pub use case::Case;
use case::Random;

/// Every case, with operands drawn from `seed`.
pub fn cases(seed: u64) -> Vec<Case> {
    let mut random = Random(seed);
    let mut cases = scalar::cases(&mut random);
    cases.extend(collective::cases(&mut random));
    cases.extend(matrix::cases(&mut random));
    cases
}
