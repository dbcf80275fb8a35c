//! Kernels in CUDA C as nvcc 13 compiles them for sm_80 (`tests/cuda`): `nvcc -ptx -arch=sm_80 X.cu`, with `-DFAULT
//! -lineinfo` for `*_fault.ptx` and `--use_fast_math` for `math_fast.ptx`.

mod common;

use common::{bytes, words};
use ptx_sim::{Error, Fault, FaultKind, Launch, Memory, Module, launch};

/// Runs an entry on buffers, all parameters; the buffers afterwards.
fn run(
    ptx: &str,
    entry: &str,
    grid: u32,
    block: u32,
    buffers: &[Vec<u8>],
    rest: &[u8],
) -> Result<Vec<Vec<u8>>, Error> {
    let module = Module::parse(ptx)?;
    let memory = Memory::new();
    let mut params = Vec::new();
    let mut addresses = Vec::new();
    for buffer in buffers {
        let address = memory.alloc(buffer.len() as u64);
        memory.write(address, buffer)?;
        params.extend(address.to_le_bytes());
        addresses.push(address);
    }
    params.extend(rest);
    let grid = [grid, 1, 1];
    launch(
        &module,
        &memory,
        Launch {
            entry,
            grid,
            block: [block, 1, 1],
            shared_bytes: 0,
            params: &params,
            ..Launch::default()
        },
    )?;
    let mut back = buffers.to_vec();
    for (buffer, &address) in back.iter_mut().zip(&addresses) {
        memory.read(address, buffer)?;
    }
    Ok(back)
}

fn fault(result: Result<Vec<Vec<u8>>, Error>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("not a fault: {other:?}"),
    }
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

#[test]
fn a_reduction() {
    let input = floats((0..512).map(|i| i as f32));
    let buffers = [input, vec![0; 8]];
    let back = run(include_str!("cuda/reduce.ptx"), "reduce", 2, 256, &buffers, &[]).unwrap();
    assert_eq!(back[1], floats([32640.0, 98176.0].into_iter()));
    // Without its barrier; `.loc` names the line in CUDA C.
    let found = fault(run(include_str!("cuda/reduce_fault.ptx"), "reduce", 2, 256, &buffers, &[]));
    assert!(matches!(found.kind, FaultKind::Race | FaultKind::Uninitialised), "{found}");
    let origin = found.origin.clone().unwrap();
    assert!(origin.contains("reduce.cu:1"), "{found}");
    assert!(found.to_string().contains(&origin), "{found}");
}

#[test]
fn fast_and_directed_arithmetic() {
    let values: Vec<f32> = (0..64).map(|i| (i as f32 - 31.7) * 1.37 + 0.01).collect();
    let input = floats(values.iter().copied());
    let count = 64_u32.to_le_bytes();
    for (ptx, fast) in
        [(include_str!("cuda/math.ptx"), false), (include_str!("cuda/math_fast.ptx"), true)]
    {
        let buffers = [input.clone(), vec![0; 64 * 64]];
        let back = run(ptx, "math", 1, 64, &buffers, &count).unwrap();
        let out: Vec<f32> = words(&back[1]).into_iter().map(f32::from_bits).collect();
        for i in 0..64 {
            let (a, b) = (values[i], values[(i + 1) % 64]);
            let (x, y) = (f64::from(a), f64::from(b));
            let out = &out[16 * i..][..16];
            let close = |at: usize, expected: f64| {
                let error = (f64::from(out[at]) - expected).abs() / expected.abs().max(1e-3);
                assert!(error < 1e-5, "fast {fast}, value {at} of {i}: {} {expected}", out[at]);
            };
            close(0, x / y);
            close(1, x.abs().sqrt());
            close(7, x.abs().sqrt());
            close(8, x * y + x);
            close(11, 1.0 / x.abs().sqrt());
            close(12, x.floor() + y.trunc() + x.round_ties_even());
            assert_eq!(out[9], a.max(b));
            // Directed rounding: on the right side, and next to the other one.
            let product = x * y;
            assert!(
                f64::from(out[2]).abs() <= product.abs()
                    && f64::from(out[2].next_up()).abs().max(f64::from(out[2].next_down()).abs())
                        > product.abs()
            );
            assert!(f64::from(out[3]) <= x + y && f64::from(out[3].next_up()) > x + y);
            assert!(f64::from(out[4]) >= x - y && f64::from(out[4].next_down()) < x - y);
            assert!(f64::from(out[6]) >= x / y && f64::from(out[6].next_down()) <= x / y);
            let whole = 123_456_789 + i as i32;
            assert_eq!(out[13], a.trunc() + (whole / 8 * 8) as f32);
            assert!(f64::from(out[14]) <= x * 1.000_000_000_1);
        }
    }
}

#[test]
fn subnormal_numbers_are_flushed() {
    let body = "
    .reg .f32 %f<4>;
    .reg .b64 %d;
    .reg .pred %p;
    ld.param.u64 %d, [buffer];
    ld.global.f32 %f0, [%d];
    ld.global.f32 %f1, [%d+4];
    add.ftz.f32 %f2, %f0, %f1;
    st.global.f32 [%d], %f2;
    add.f32 %f2, %f0, %f1;
    st.global.f32 [%d+4], %f2;
    mul.rz.ftz.f32 %f3, %f1, 0f00800000;
    st.global.f32 [%d+8], %f3;
    setp.eq.ftz.f32 %p, %f0, 0f00000000;
    selp.f32 %f3, 0f3F800000, 0f00000000, %p;
    st.global.f32 [%d+12], %f3;
    ret;";
    let tiny = f32::from_bits(5);
    let input = [&tiny.to_le_bytes()[..], &(-0.5_f32).to_le_bytes(), &[0; 8]].concat();
    let (back, _) = common::run(&common::kernel("sm_80", "", body), 1, 0, &input).unwrap();
    assert_eq!(
        words(&back),
        [(-0.5_f32).to_bits(), (-0.5_f32).to_bits(), 1 << 31, 1_f32.to_bits()]
    );
    let input = [&tiny.to_le_bytes()[..], &tiny.to_le_bytes(), &[0; 8]].concat();
    let (back, _) = common::run(&common::kernel("sm_80", "", body), 1, 0, &input).unwrap();
    assert_eq!(words(&back), [0, 10, 0, 1_f32.to_bits()]);
}

#[test]
fn a_block_may_have_another_shape_of_as_many_threads() {
    let ptx = common::kernel("sm_80", "", "ret;").replace("buffer)", "buffer) .reqntid 32, 4, 1");
    common::run(&ptx, 128, 0, &[0; 4]).unwrap();
    let error = common::run(&ptx, 64, 0, &[0; 4]).unwrap_err().to_string();
    assert!(error.contains("[64, 1, 1] does not fit the [32, 4, 1]"), "{error}");
}

#[test]
fn an_entry_is_refused_alone() {
    let good = common::kernel("sm_80", "", "ret;");
    let bad = ".visible .entry other()\n{\n.reg .b32 %r;\nfrobnicate.b32 %r;\nret;\n}\n";
    let ptx = format!("{good}{bad}");
    common::run(&ptx, 32, 0, &[0; 4]).unwrap();
    let module = Module::parse(&ptx).unwrap();
    let (name, error) = module.refused().next().unwrap();
    assert_eq!((name, module.entries().count(), module.refused().count()), ("other", 1, 1));
    assert!(error.to_string().contains("unknown instruction `frobnicate`"), "{error}");
    let refused = run(&ptx, "other", 1, 1, &[], &[]).unwrap_err();
    assert_eq!(&refused, error);
}

#[test]
fn a_flag_that_nobody_sets_ends_with_a_sentence() {
    let found = fault(run(include_str!("cuda/spin.ptx"), "spin", 2, 32, &[vec![0; 4]], &[]));
    assert_eq!(found.kind, FaultKind::Deadlock, "{found}");
    assert!(found.message.contains("nothing that is left to run changes"), "{found}");
}

#[test]
fn blocks_wait_for_each_others_flags() {
    let blocks = 120;
    let input = bytes(&(0..blocks).collect::<Vec<u32>>());
    let zeros = vec![0; input.len()];
    let buffers = [input, zeros.clone(), zeros];
    let back = run(include_str!("cuda/flag.ptx"), "flag", blocks, 32, &buffers, &[]).unwrap();
    // Block b waits for b + 1: the first to start is the last to end.
    let sums: Vec<u32> = (0..blocks).map(|b| (b..blocks).sum()).collect();
    assert_eq!(words(&back[1]), sums);
}

/// Runs the sum of all values; 8 blocks of one warp.
fn last_block(ptx: &str) -> Result<Vec<Vec<u8>>, Error> {
    let input = bytes(&(0..256).collect::<Vec<u32>>());
    let buffers = [input, vec![0; 32], vec![0; 4], vec![0; 4]];
    run(ptx, "last_block", 8, 32, &buffers, &[])
}

#[test]
fn the_last_block_needs_its_fence() {
    let ptx = include_str!("cuda/last_block.ptx");
    for _ in 0..10 {
        let back = last_block(ptx).unwrap();
        assert_eq!(words(&back[3]), [255 * 128]);
        let found = fault(last_block(include_str!("cuda/last_block_fault.ptx")));
        assert_eq!(found.kind, FaultKind::Race, "{found}");
        assert!(found.message.contains("read of bytes written by block ("), "{found}");
        assert!(found.message.contains("orders blocks"), "{found}");
    }
    // A fence of the block alone, and an atomic that others need not see in order.
    let (before, after) = ptx.split_once("membar.gl;").unwrap();
    let weaker = format!("{before}membar.cta;{after}");
    assert_eq!(fault(last_block(&weaker)).kind, FaultKind::Race);
    // Release and acquire on the atomic are as good as fences.
    let ordered =
        ptx.replace("membar.gl;", "").replace("atom.global.add", "atom.acq_rel.gpu.global.add");
    assert_ne!(ordered, ptx);
    last_block(&ordered).unwrap();
    let narrow = ordered.replace("acq_rel.gpu", "acq_rel.cta");
    assert_eq!(fault(last_block(&narrow)).kind, FaultKind::Race);
    let relaxed = ordered.replace("acq_rel.gpu", "relaxed.gpu");
    assert_eq!(fault(last_block(&relaxed)).kind, FaultKind::Race);
}
