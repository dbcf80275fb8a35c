//! Sums on the CPU.

use ndarray::{Axis, parallel::prelude::*};

use super::sums::{Block, Sums};
use crate::sample::Encoding;

/// `|x|^2` of a sample.
fn power(encoding: Encoding, bytes: &[u8]) -> u64 {
    let nibble = |bits: u8| i32::from((bits << 4) as i8 >> 4);
    let [real, imaginary] = match encoding {
        Encoding::Ci8 => [i32::from(bytes[0] as i8), i32::from(bytes[1] as i8)],
        Encoding::Ci4Offset => [nibble((bytes[0] ^ 0x88) >> 4), nibble(bytes[0] ^ 0x88)],
        _ => [nibble(bytes[0] >> 4), nibble(bytes[0])],
    };
    (real * real + imaginary * imaginary) as u64
}

/// Adds sums of `bytes`, in which missing samples are zero.
pub(super) fn add(block: &Block, bytes: &[u8], sums: &mut Sums) {
    let Block { encoding, extents, strides, block_times } = *block;
    let times = sums.times;
    sums.values.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(
        |(number, mut block)| {
            let range = number * block_times..((number + 1) * block_times).min(times);
            block.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(
                |(channel, mut sums)| {
                    let mut add = |input: usize, time: usize| {
                        let first =
                            channel * strides.channel + input * strides.input + time * strides.time;
                        let power = power(encoding, &bytes[first..first + encoding.bytes()]);
                        sums[[input, 1]] += power as i64;
                        sums[[input, 2]] += (power * power) as i64;
                    };
                    let inputs = 0..extents.inputs;
                    if strides.time < strides.input {
                        inputs.for_each(|input| range.clone().for_each(|time| add(input, time)));
                    } else {
                        range
                            .clone()
                            .for_each(|time| inputs.clone().for_each(|input| add(input, time)));
                    }
                },
            );
        },
    );
}
