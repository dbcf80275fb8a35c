//! Properties of the correlation plan: any shape and any cuts give what the oracle gives, and what
//! cannot be computed is refused in one sentence, before anything has changed.

use corrust_host::{
    Correlator, Device, Encoding, Error, Layout,
    correlate::{Builder, DROP, Kernel, baselines},
    samples::Samples,
};
use oracle::Block;
use proptest::{prelude::*, sample::select};

use crate::support::oracle::correlate as oracle;

/// A block of any bytes (of integers), of any shape.
fn blocks() -> impl Strategy<Value = Block> {
    let encodings = select(vec![Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset]);
    (1..60_usize, 1..6_usize, 0..80_usize, encodings, select(Layout::ALL.to_vec())).prop_flat_map(
        |(inputs, channels, times, encoding, layout)| {
            let bytes = inputs * channels * times * encoding.bytes();
            proptest::collection::vec(any::<u8>(), bytes).prop_map(move |bytes| Block {
                inputs,
                channels,
                times,
                encoding,
                layout,
                bytes,
            })
        },
    )
}

fn builder(block: &Block) -> Builder {
    Correlator::builder(block.inputs, block.channels)
        .encoding(block.encoding)
        .layout(block.layout)
        .device(Device::Cpu)
}

/// The error's message, which must be one line and name `parts`.
fn message(error: Error, parts: &[&str]) {
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.ends_with('.'), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message}: expected {part:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_shape_and_cut_is_exact(block in blocks(), cut in any::<prop::sample::Index>()) {
        let mut plan = builder(&block).build().unwrap();
        let cut = cut.index(block.times + 1);
        plan.accumulate(&block.cut(0, cut).bytes).unwrap();
        plan.accumulate(&block.cut(cut, block.times).bytes).unwrap();
        let dump = plan.dump().unwrap();
        let found = dump.visibilities.integer().unwrap();
        for (channel, expected) in oracle::correlate_block(&block).iter().enumerate() {
            for (baseline, expected) in expected.iter().enumerate() {
                let found = found[[channel, baseline]];
                prop_assert_eq!((found.re as f64, found.im as f64), (expected.re, expected.im));
                prop_assert_eq!(dump.valid.get(channel, baseline), block.times as u64);
            }
        }
    }

    #[test]
    fn incomplete_times_are_refused(block in blocks(), odd in 1..1000_usize) {
        let mut plan = builder(&block).build().unwrap();
        let step = block.inputs * block.channels * block.encoding.bytes();
        prop_assume!(!odd.is_multiple_of(step));
        let mut bytes = block.bytes.clone();
        bytes.resize(bytes.len() + odd, 0);
        let length = bytes.len().to_string();
        message(plan.accumulate(&bytes).unwrap_err(), &[&length, &format!("multiple of {step}")]);
        prop_assert_eq!(plan.times(), 0);
    }

    #[test]
    fn wrong_samples_and_gates_are_refused(
        block in blocks(),
        numbers in 0..200_usize,
        gates in 1..=255_usize,
        number in any::<u8>(),
    ) {
        let mut plan = builder(&block).gates(gates).build().unwrap();
        let Block { inputs, channels, times, encoding, layout, .. } = block;
        let bytes = vec![0_u8; (inputs + 1) * channels * times * encoding.bytes()];
        let other = Samples::new(&bytes[..], inputs + 1, channels, encoding, layout).unwrap();
        let error = plan.accumulate_gated(other, &vec![0; times]).unwrap_err();
        let found = format!("{channels} channels and {} inputs", inputs + 1);
        message(error, &[&found, &format!("expected {channels} and {inputs}")]);
        let other = Samples::new(&[0_u8; 0][..], inputs, channels, Encoding::Cf16, layout).unwrap();
        let error = plan.accumulate_gated(other, &[]).unwrap_err();
        message(error, &["samples of cf16", &format!("expected {encoding}")]);
        if numbers != block.times {
            let error = plan.accumulate_gated(&block.bytes, &vec![0; numbers]).unwrap_err();
            message(error, &["gate numbers", &numbers.to_string(), &block.times.to_string()]);
        }
        if block.times > 0 {
            let result = plan.accumulate_gated(&block.bytes, &vec![number; block.times]);
            if usize::from(number) < gates || number == DROP {
                result.unwrap();
                prop_assert_eq!(plan.times(), block.times as u64);
            } else {
                message(result.unwrap_err(), &["gate number", &number.to_string(), "time 0"]);
                prop_assert_eq!(plan.times(), 0);
            }
        }
        prop_assert_eq!(plan.dump_gates().unwrap().len(), gates);
    }

    #[test]
    fn impossible_plans_are_refused(
        inputs in prop_oneof![Just(0), Just(1), 1_usize << 22..=usize::MAX],
        channels in prop_oneof![Just(0), Just(1), 1_usize << 22..=usize::MAX],
        gates in prop_oneof![Just(0), Just(1), 256..=usize::MAX],
        shifts in 0..3_usize,
    ) {
        // The visibilities of one huge number and one 1 would fit: refuse what does not.
        prop_assume!(inputs != 1 || channels < 1 << 22 || gates != 1 || shifts > 1);
        let result = Correlator::builder(inputs, channels)
            .device(Device::Cpu)
            .gates(gates)
            .shifts(&vec![0; shifts])
            .build();
        match result {
            Ok(_) => prop_assert!((inputs, channels, gates) == (1, 1, 1) && shifts <= 1),
            Err(error @ Error::Invalid(_)) => message(error, &[]),
            Err(error) => message(error, &["CPU is out of memory", "bytes are needed"]),
        }
    }
}

#[test]
fn kernels_run_where_they_belong() {
    let plan = Correlator::builder(2, 1).device(Device::Cpu).build().unwrap();
    assert!(plan.kernel().name().starts_with("cpu-"), "{}", plan.kernel());
    assert!(plan.device_name().starts_with("CPU"), "{}", plan.device_name());
    for &kernel in Kernel::ALL.iter().filter(|kernel| !kernel.name().starts_with("cpu-")) {
        if kernel != Kernel::Auto {
            let builder = Correlator::builder(2, 1).device(Device::Cpu).kernel(kernel);
            message(builder.build().err().expect("no kernel for CPUs"), &[kernel.name(), "CPU"]);
        }
    }
}

#[test]
fn a_shift_common_to_all_inputs_only_delays() {
    let samples: Vec<[i8; 2]> = (0..60).map(|k| [k as i8, (3 * k) as i8]).collect();
    let mut plain = Correlator::builder(3, 2).device(Device::Cpu).build().unwrap();
    let mut shifted =
        Correlator::builder(3, 2).device(Device::Cpu).shifts(&[4; 3]).build().unwrap();
    plain.accumulate(&samples[..36]).unwrap();
    shifted.accumulate(&samples).unwrap();
    let (plain, shifted) = (plain.dump().unwrap(), shifted.dump().unwrap());
    assert_eq!(plain.visibilities, shifted.visibilities);
    assert_eq!((plain.times, shifted.times), (6, 10));
    for baseline in 0..baselines(3) {
        assert_eq!(shifted.valid.get(1, baseline), 6);
    }
}

#[test]
fn gated_plans_ask_for_gates() {
    let mut plan = Correlator::builder(1, 1).device(Device::Cpu).gates(2).build().unwrap();
    message(plan.accumulate(&[[1_i8, 2]]).unwrap_err(), &["no gate numbers", "2 gates"]);
    message(plan.dump().unwrap_err(), &["dump_gates"]);
}
