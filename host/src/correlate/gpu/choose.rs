//! The choice of a kernel for a GPU and an array.

use super::{family::Family, few::Few, piece::brings_delivered, rows::Rows, wgmma::Warpgroup};
use crate::{
    device::gpu::Facts, kernels::correlate::Kernel, samples::shape::Shape, tuning::Tuning,
};

/// The kernels of a name, if they run on GPUs.
pub(super) fn family(kernel: Kernel) -> Option<Box<dyn Family>> {
    None.or_else(|| Some(Box::new(Rows::of(kernel)?) as Box<dyn Family>))
        .or_else(|| Some(Box::new(Warpgroup::of(kernel)?)))
        .or_else(|| Some(Box::new(Few::of(kernel)?)))
}

/// The kernel for a GPU and an array, as a table says.
pub(super) fn choose(facts: &Facts, tuning: &Tuning, shape: &Shape) -> Kernel {
    let tuned = tuning.correlate.of(shape.encoding);
    let runs = |kernel| {
        family(kernel).filter(|family| {
            facts.runs(family.target()) && shape.inputs <= family.most_inputs(shape)
        })
    };
    let delivered = brings_delivered(shape);
    let range = (tuned.ranges.iter())
        .find(|range| range.holds(shape.inputs, delivered) && runs(range.kernel).is_some());
    if let Some(range) = range {
        return range.kernel;
    }
    let costs = tuned.speeds.iter().filter_map(|(&kernel, speed)| {
        let family = runs(kernel).filter(|family| family.overlaps(facts))?;
        Some((kernel, family.computed_baselines(shape.inputs) as f64 / speed))
    });
    costs.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(Kernel::Mma64, |(kernel, _)| kernel)
}

impl Kernel {
    /// Baselines of a channel that the kernel computes of `inputs` inputs on a GPU, whole tiles with their padding; none
    /// for a CPU's.
    pub fn computed_baselines(self, inputs: usize) -> Option<u64> {
        u64::try_from(family(self)?.computed_baselines(inputs)).ok()
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        device::{Gpu, SimGpu},
        layout::Layout,
        sample::Encoding,
        tuning::{Order, Range},
    };

    #[test]
    fn names_tell_which_kernels_run_on_gpus() {
        for &kernel in Kernel::ALL {
            assert_eq!(family(kernel).is_some(), kernel.is_of_gpus(), "{kernel}");
        }
    }

    /// Every encoding that a kernel is said to take has a declaration.
    #[test]
    fn every_encoding_of_a_kernel_begins() {
        let gpu: Arc<dyn Gpu> = Arc::new(SimGpu::new());
        for &kernel in Kernel::ALL {
            for encoding in kernel.encodings().iter().copied().filter(|_| kernel.is_of_gpus()) {
                let shape = Shape { inputs: 2, channels: 1, encoding, layout: Layout::Cnt };
                assert!(
                    family(kernel).unwrap().begin(&gpu, &shape, 1).is_ok(),
                    "{kernel} {encoding}"
                );
            }
        }
    }

    #[test]
    fn samples_of_4_bits_are_multiplied_as_such_where_tensor_cores_do_so() {
        let chosen = |capability, encoding, inputs| {
            let facts = Facts { capability, ..SimGpu::new().facts().clone() };
            let shape = Shape { inputs, channels: 1, encoding, layout: Layout::Tcn };
            choose(&facts, Tuning::nearest(&facts), &shape)
        };
        for encoding in [Encoding::Ci4, Encoding::Ci4Offset] {
            for capability in [(8, 0), (8, 6), (8, 9)] {
                for inputs in [72, 128, 2048] {
                    assert_eq!(chosen(capability, encoding, inputs), Kernel::MmaS4);
                }
                for inputs in [16, 48, 64] {
                    assert_eq!(chosen(capability, encoding, inputs), Kernel::Few);
                }
            }
            assert_eq!(chosen((9, 0), encoding, 16), Kernel::Few);
            assert_eq!(chosen((9, 0), encoding, 40), Kernel::WgmmaCi4);
            assert_eq!(chosen((9, 0), encoding, 256), Kernel::Wgmma128);
            assert_eq!(chosen((9, 0), encoding, 272), Kernel::WgmmaCi4);
            assert_eq!(chosen((10, 0), encoding, 2048), Kernel::Mma128);
        }
        assert_eq!(chosen((8, 0), Encoding::Ci8, 2048), Kernel::Mma128);
        assert_eq!(chosen((8, 6), Encoding::Ci8, 2048), Kernel::Mma64);
        assert_eq!(chosen((8, 6), Encoding::Cf16, 64), Kernel::Mma64);
    }

    /// The kernels that were quickest when the table was measured, and between those numbers of inputs.
    #[test]
    fn the_h200s_table_chooses_what_was_quickest() {
        let facts = SimGpu::new().facts().clone();
        let tuning = Tuning::built_in().iter().find(|table| table.model == "H200").unwrap();
        use Encoding::{B1, Cf16, Ci4, Ci8};
        use Layout::{Cnt, Tcn};
        let measured: [(_, _, std::ops::RangeInclusive<usize>, _); 17] = [
            (Ci8, Tcn, 16..=64, Kernel::Few),
            (Ci8, Tcn, 80..=2048, Kernel::Wgmma128),
            (Ci8, Cnt, 1..=16, Kernel::Few),
            (Ci8, Cnt, 32..=64, Kernel::Mma64),
            (Ci8, Cnt, 192..=192, Kernel::Wgmma192),
            (Ci8, Cnt, 256..=256, Kernel::Wgmma128),
            (Ci8, Cnt, 2048..=2048, Kernel::Wgmma192),
            (Ci4, Tcn, 16..=64, Kernel::Few),
            (Ci4, Tcn, 96..=256, Kernel::Wgmma128),
            (Ci4, Tcn, 512..=2048, Kernel::WgmmaCi4),
            (Ci4, Cnt, 16..=32, Kernel::Few),
            (Ci4, Cnt, 64..=2048, Kernel::WgmmaCi4),
            (Cf16, Tcn, 16..=32, Kernel::Mma64),
            (Cf16, Tcn, 48..=2048, Kernel::Wgmma128),
            (Cf16, Cnt, 16..=64, Kernel::Mma64),
            (B1, Cnt, 16..=64, Kernel::Mma64),
            (B1, Cnt, 1024..=2048, Kernel::Wgmma192),
        ];
        for (encoding, layout, inputs, quickest) in measured {
            // Of `tcn`, times of whole 16 bytes: others are turned.
            for inputs in inputs.filter(|inputs| layout == Cnt || inputs.is_multiple_of(16)) {
                let shape = Shape { inputs, channels: 1, encoding, layout };
                let chosen = choose(&facts, tuning, &shape);
                assert_eq!(chosen, quickest, "{encoding} {layout}, {inputs} inputs");
            }
        }
    }

    /// The tables of an A100 and an A40 have the kernels that docs/notebook/correlate-few.md predicts to be quicker: a table
    /// made anew that changes this asks for the prediction, too.
    #[test]
    fn few_inputs_of_an_a100_and_an_a40_take_few() {
        for (model, capability, shared_bytes) in
            [("A100", (8, 0), 164 << 10), ("A40", (8, 6), 100 << 10)]
        {
            let tuning = Tuning::built_in().iter().find(|table| table.model == model).unwrap();
            let facts = Facts { capability, shared_bytes, ..SimGpu::new().facts().clone() };
            for encoding in [Encoding::Ci8, Encoding::Ci4] {
                for (layout, most) in [(Layout::Tcn, 64), (Layout::Cnt, 16)] {
                    let all = 8..=128_usize;
                    for inputs in all.filter(|inputs| inputs % 16 == 0 || layout == Layout::Cnt) {
                        let shape = Shape { inputs, channels: 1, encoding, layout };
                        let few = choose(&facts, tuning, &shape) == Kernel::Few;
                        assert_eq!(few, inputs <= most, "{model}, {inputs}, {encoding} {layout}");
                    }
                }
            }
        }
    }

    #[test]
    fn another_table_chooses_otherwise_but_nothing_that_does_not_run() {
        let facts = |capability, shared_bytes| Facts {
            capability,
            shared_bytes,
            ..SimGpu::new().facts().clone()
        };
        let shape = |inputs, layout| Shape { inputs, channels: 1, encoding: Encoding::Ci8, layout };
        let mut tuning = Tuning::built_in()[0].clone();
        tuning.correlate.ci8.ranges =
            [(Order::Rows, (10, Some(20))), (Order::Delivered, (16, None))]
                .map(|(samples, inputs)| Range { samples, inputs, kernel: Kernel::Wgmma192 })
                .into();
        tuning.correlate.ci8.speeds = [(Kernel::Mma64, 1.0), (Kernel::Mma128, 9.0)].into();
        let hopper = facts((9, 0), 227 << 10);
        for (inputs, layout, expected) in [
            (9, Layout::Cnt, Kernel::Mma128),
            (10, Layout::Cnt, Kernel::Wgmma192),
            (20, Layout::Cnt, Kernel::Wgmma192),
            (21, Layout::Cnt, Kernel::Mma128),
            (16, Layout::Tcn, Kernel::Wgmma192),
            // Samples that cannot be delivered are brought to rows.
            (17, Layout::Tcn, Kernel::Wgmma192),
            (4097, Layout::Tcn, Kernel::Mma128),
            (4096, Layout::Tcn, Kernel::Wgmma192),
        ] {
            let shape = shape(inputs, layout);
            assert_eq!(choose(&hopper, &tuning, &shape), expected, "{inputs} {layout}");
            assert_eq!(choose(&facts((10, 0), 227 << 10), &tuning, &shape), Kernel::Mma128);
            // A block of which fills the shared memory alone.
            assert_eq!(choose(&facts((12, 0), 99 << 10), &tuning, &shape), Kernel::Mma64);
        }
    }
}
