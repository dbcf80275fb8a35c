//! A backend of the correlator, and what its dumps are to be.

use corrust_host::{
    Correlator, Devices,
    correlate::{Builder, Dump, Kernel, Visibilities},
};

use super::{
    device,
    oracle::correlate::{Block, Visibility},
};

/// A kernel and the devices on which it computes.
#[derive(Clone, Copy)]
pub struct KernelOnDevices {
    pub name: &'static str,
    pub devices: &'static str,
    pub kernel: Kernel,
}

impl KernelOnDevices {
    pub fn devices(&self) -> Devices {
        self.devices.parse().expect("a list of devices")
    }

    /// Plans for blocks as this one.
    pub fn builder(&self, block: &Block) -> Builder {
        Correlator::builder(block.inputs, block.channels)
            .encoding(block.encoding)
            .layout(block.layout)
            .device(self.devices())
            .kernel(self.kernel)
    }

    /// Whether it is there, for blocks as this one; says why if not.
    pub fn is_there(&self, block: &Block) -> bool {
        device::there(self.name, self.builder(block).build()).is_some()
    }
}

/// Panics unless the dump is what the oracle says: exactly, or within the bound that summing in f32
/// in any order keeps and that which holds at any length.
pub fn compare(what: &str, dump: &Dump, expected: &[Vec<Visibility>]) {
    let shape = (expected.len(), expected[0].len());
    match &dump.visibilities {
        Visibilities::Integer(sums) => assert_eq!(sums.dim(), shape, "{what}"),
        Visibilities::Float(sums) => assert_eq!(sums.dim(), shape, "{what}"),
    }
    for (channel, expected) in expected.iter().enumerate() {
        for (baseline, expected) in expected.iter().enumerate() {
            let at = [channel, baseline];
            let (good, differences) = match &dump.visibilities {
                Visibilities::Integer(sums) => {
                    let found = sums[at];
                    let differences = [(found.re, expected.re), (found.im, expected.im)]
                        .map(|(found, expected)| found.wrapping_sub(expected as i64));
                    (differences == [0, 0], differences)
                }
                Visibilities::Float(sums) => (expected.is_near(sums[at].re, sums[at].im), [0, 0]),
            };
            // Baseline b of inputs i >= j: b = i (i + 1) / 2 + j.
            let i = (1..).take_while(|i| i * (i + 1) / 2 <= baseline).count();
            let j = baseline - i * (i + 1) / 2;
            assert!(
                good,
                "{what}: channel {channel}, baseline {baseline} (i = {i}, j = {j}): expected {expected:?}, found {}{}",
                match &dump.visibilities {
                    Visibilities::Integer(sums) => sums[at].to_string(),
                    Visibilities::Float(sums) => sums[at].to_string(),
                },
                wrapped(&differences)
            );
            assert_eq!(dump.valid.get(channel, baseline), expected.count, "{what}: valid samples");
        }
    }
}

/// Words for an error where all differences of found and expected integers are multiples of 2^n, n at least 11, but for a
/// carry into the next field for each: a field of n bits or fewer wrapped.
pub fn wrapped(differences: &[i64]) -> String {
    let bits = (11..=32).rev().find(|&bits| {
        let times = |difference: i64| difference.wrapping_add(1 << (bits - 1)) >> bits;
        let most = differences.iter().map(|&difference| times(difference).abs()).max();
        // More carries than these are near any difference.
        most.is_some_and(|most| {
            (1..1 << (bits - 7)).contains(&most)
                && differences.iter().all(|&d| d.wrapping_sub(times(d) << bits).abs() <= most)
        })
    });
    bits.map_or_else(String::new, |bits| {
        format!(": off by a multiple of 2^{bits}, as where a field or a sum overflows")
    })
}
