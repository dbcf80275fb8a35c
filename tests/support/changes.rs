//! Files that are changed at random, for what reads them.

use rand::{RngExt, rngs::ChaCha8Rng};

/// Some bytes others, taken out, put in, or numbers that are at the end of their range.
pub fn changed(bytes: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    const NUMBERS: [&[u8]; 8] = [
        b"0",
        b"-1",
        b"1e400",
        b"18446744073709551615",
        b"9223372036854775807",
        b"nan",
        b"4294967296",
        &[255; 4],
    ];
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..5) {
        // Half of them where headers are.
        let end = if random.random() { bytes.len() } else { bytes.len().min(300) };
        let at = random.random_range(0..=end);
        let run = at..(at + random.random_range(0..20)).min(bytes.len());
        match random.random_range(0..6) {
            0 => drop(bytes.drain(run)),
            1 => drop(bytes.splice(at..at, bytes[run].to_vec())),
            2 => {
                // A number, whole.
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = NUMBERS[random.random_range(0..NUMBERS.len())];
                bytes.splice(at..at + digits, number.iter().copied());
            }
            3 => bytes.truncate(at.max(bytes.len() / 2)),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.random();
                }
            }
        }
    }
    bytes
}
