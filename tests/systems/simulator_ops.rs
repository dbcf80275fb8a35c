//! The simulator judged by hardware: every case of `ptx-sim/tests/cases`, one an instruction, on a GPU. The
//! simulator's own tests run the same cases; here the GPU must give the same bits.
//!
//! Skipped where there is no GPU; `CORRUST_REQUIRE=cuda` turns that into a failure. Cases for Hopper
//! alone are left out on other GPUs, saying so.

#![cfg(all(any(feature = "cuda", corrust_cuda), target_os = "linux"))]

use std::{collections::HashMap, ffi::c_void};

#[path = "../../ptx-sim/tests/cases/mod.rs"]
mod cases;

use cases::{Case, cases};
use corrust_host::device::cuda;
use cust::{
    context::Context,
    device::{Device, DeviceAttribute},
    memory::{CopyDestination, DeviceBuffer},
    module::Module,
    stream::{Stream, StreamFlags},
};

use crate::support::device;

#[test]
fn every_instruction_gives_the_same_bits_on_a_gpu() {
    if device::there("cuda", cuda::count()).is_none() {
        return;
    }
    let device = Device::get_device(0).unwrap();
    let hopper = device.get_attribute(DeviceAttribute::ComputeCapabilityMajor).unwrap() == 9;
    let _context = Context::new(device).unwrap();
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).unwrap();
    let mut modules = HashMap::new();
    let (mut passed, mut left_out) = (0, 0);
    let mut failures = Vec::new();
    for seed in 0..4 {
        for case in cases(seed) {
            if case.target == "sm_90a" && !hopper {
                left_out += 1;
                continue;
            }
            let module = modules
                .entry(case.ptx)
                .or_insert_with(|| Module::from_ptx(case.ptx, &[]).map_err(|e| e.to_string()));
            let found = match module {
                Ok(module) => run(&case, module, &stream),
                Err(error) => Err(error.clone()),
            };
            match found {
                Ok(found) if found == case.expected => passed += 1,
                Ok(found) => failures.push(difference(&case, &found, seed)),
                Err(error) => failures.push(format!("{} (seed {seed}): {error}", case.entry)),
            }
        }
    }
    println!("{passed} cases give the same bits, {left_out} need Hopper");
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

/// Bytes that the GPU writes for a case.
fn run(case: &Case, module: &Module, stream: &Stream) -> Result<Vec<u8>, String> {
    let text = |error: cust::error::CudaError| error.to_string();
    let function = module.get_function(case.entry).map_err(text)?;
    let input = DeviceBuffer::from_slice(&case.input).map_err(text)?;
    let output = DeviceBuffer::from_slice(&vec![0_u8; case.expected.len()]).map_err(text)?;
    let mut parameters =
        Case::params(input.as_device_ptr().as_raw(), output.as_device_ptr().as_raw());
    // SAFETY: the case's kernel takes these parameters and stays within the buffers.
    unsafe {
        let arguments = [parameters.as_mut_ptr().cast::<c_void>()];
        stream.launch(&function, case.grid, case.block, 0, &arguments).map_err(text)?;
    }
    stream.synchronize().map_err(text)?;
    let mut found = vec![0; case.expected.len()];
    output.copy_to(&mut found).map_err(text)?;
    Ok(found)
}

/// The first thread whose output differs, with its input, as 64-bit words.
fn difference(case: &Case, found: &[u8], seed: u64) -> String {
    let threads = (case.grid * case.block) as usize;
    let part = |bytes: &[u8], thread: usize| -> Vec<String> {
        let length = bytes.len() / threads;
        let words = bytes[thread * length..][..length].chunks(8);
        words.map(|word| word.iter().rev().map(|byte| format!("{byte:02x}")).collect()).collect()
    };
    let mut differing = (0..threads).filter(|&t| part(found, t) != part(&case.expected, t));
    let first = differing.next().unwrap_or(0);
    format!(
        "{} (seed {seed}): {} of {threads} threads differ, first {first}: of {}\n  found    {}\n  \
         expected {}",
        case.entry,
        differing.count() + 1,
        part(&case.input, first).join(" "),
        part(found, first).join(" "),
        part(&case.expected, first).join(" ")
    )
}
