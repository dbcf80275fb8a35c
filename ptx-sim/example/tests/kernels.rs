//! Tests of the kernels, without a GPU.

use ptx_sim::{Error, FaultKind, Kernels, RustKernels};

/// The kernels of this crate; compiled once, however many tests ask.
fn kernels() -> Kernels {
    RustKernels::new(env!("CARGO_MANIFEST_DIR")).compile().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn add_scaled_adds_and_leaves_the_rest_alone() {
    let kernels = kernels();
    for length in [1u32, 127, 128, 129, 1000] {
        let x: Vec<f32> = (0..length).map(|i| i as f32).collect();
        let done = kernels
            .launch("add_scaled")
            .grid(length.div_ceil(128))
            .block(128)
            .buffer(&x)
            .buffer(&vec![1.0f32; length as usize])
            .value(0.5f32)
            .value(length)
            .run()
            .unwrap();
        let expected: Vec<f32> = x.iter().map(|x| 1.0 + 0.5 * x).collect();
        assert_eq!(done.buffer::<f32>(1), expected, "{length}");
        // Each access of a warp touches as few sectors of memory as its bytes fit in.
        assert_eq!(done.report.uncoalesced().count(), 0);
    }
}

#[test]
fn reverse_reverses_without_bank_conflicts() {
    let numbers: Vec<u32> = (0..512).collect();
    let done = kernels()
        .launch("reverse")
        .grid(2)
        .block(256)
        .shared_bytes(1024)
        .buffer(&numbers)
        .run()
        .unwrap();
    let expected: Vec<u32> = (0..256).rev().chain((256..512).rev()).collect();
    assert_eq!(done.buffer::<u32>(0), expected);
    assert_eq!(done.report.bank_conflicts().count(), 0);
}

/// A GPU may give the right numbers for years. The simulator names the mistake in the first run.
#[test]
fn a_missing_barrier_is_found() {
    let kernels = kernels();
    let launch = kernels.launch("reverse_without_barrier").block(256).shared_bytes(1024);
    let error = launch.buffer(&[0u32; 256]).run().unwrap_err();
    let Error::Fault(fault) = error else { panic!("{error}") };
    println!("{fault}");
    assert!(matches!(fault.kind, FaultKind::Race | FaultKind::Uninitialised), "{fault:?}");
    // The line of the Rust source, not only of the PTX.
    assert!(fault.origin.is_some_and(|origin| origin.contains("lib.rs:")));
}

/// A finding of the simulator fails a test that does not expect it.
#[test]
#[should_panic(expected = "OutOfBounds")]
fn a_buffer_that_is_too_short_fails_the_test() {
    let kernels = kernels();
    let launch = kernels.launch("add_scaled").block(128).buffer(&[0f32; 100]);
    launch.buffer(&[0f32; 100]).value(1f32).value(128u32).run().unwrap();
}
