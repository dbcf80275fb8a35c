//! Pipelines of asynchronous instructions, and what happens when one of their waits or fences is missing.

mod common;

use common::{bytes, expect, fault, kernel, words};
use ptx_sim::{Error, Fault, FaultKind, Launch, Memory, Module, TensorMap, launch};

/// Four warps consume what a fifth brings in by bulk copies, three stages deep, 8 steps of 512 bytes:
/// `full` barriers say that a stage has come, `empty` ones that it may be overwritten. Each consumer
/// thread sums its words.
const STEPS: usize = 8;

fn pipeline() -> String {
    kernel(
        "sm_90a",
        ".shared .align 128 .b8 stages[1536];\n.shared .align 8 .b8 full[24];\n.shared .align 8 .b8 empty[24];",
        "
    .reg .b32 %r<30>;
    .reg .b64 %rd<10>;
    .reg .pred %p<6>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, stages;
    mov.u32 %r3, full;
    mov.u32 %r4, empty;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mov.u32 %r5, 0;
INIT:
    mad.lo.u32 %r6, %r5, 8, %r3;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    mad.lo.u32 %r6, %r5, 8, %r4;
    mbarrier.init.shared::cta.b64 [%r6], 128;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 3;
    @%p2 bra INIT;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
READY:
    bar.sync 0;
    mov.u32 %r5, 0;
    mov.u32 %r20, 0;
    setp.ge.u32 %p1, %r1, 128;
    @%p1 bra PRODUCER;
    setmaxnreg.inc.sync.aligned.u32 232;
CONSUME:
    rem.u32 %r7, %r5, 3;
    div.u32 %r8, %r5, 3;
    and.b32 %r8, %r8, 1;
    mad.lo.u32 %r9, %r7, 8, %r3;
WAIT_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r8;
    @!%p3 bra WAIT_FULL;
    mad.lo.u32 %r10, %r7, 512, %r2;
    mad.lo.u32 %r10, %r1, 4, %r10;
    ld.shared.u32 %r11, [%r10];
    add.u32 %r20, %r20, %r11;
    mad.lo.u32 %r9, %r7, 8, %r4;
    mbarrier.arrive.shared::cta.b64 _, [%r9];
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 8;
    @%p2 bra CONSUME;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd2, %rd1, %rd2;
    st.global.u32 [%rd2], %r20;
    bra.uni END;
PRODUCER:
    setmaxnreg.dec.sync.aligned.u32 40;
    elect.sync %r12|%p4, -1;
    @!%p4 bra END;
PRODUCE:
    rem.u32 %r7, %r5, 3;
    div.u32 %r8, %r5, 3;
    and.b32 %r8, %r8, 1;
    xor.b32 %r8, %r8, 1;
    mad.lo.u32 %r9, %r7, 8, %r4;
WAIT_EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r8;
    @!%p3 bra WAIT_EMPTY;
    mad.lo.u32 %r9, %r7, 8, %r3;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 512;
    mad.lo.u32 %r10, %r7, 512, %r2;
    mul.wide.u32 %rd3, %r5, 512;
    add.u64 %rd3, %rd1, %rd3;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd3], 512, [%r9];
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 8;
    @%p2 bra PRODUCE;
END:
    ret;",
    )
}

fn data() -> Vec<u32> {
    (0..128 * STEPS as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

#[test]
fn a_pipeline_of_bulk_copies() {
    let (back, report) = common::run(&pipeline(), 160, 0, &bytes(&data())).unwrap();
    let x = data();
    let sums: Vec<u32> =
        (0..128).map(|t| (0..STEPS).fold(0u32, |s, k| s.wrapping_add(x[128 * k + t]))).collect();
    assert_eq!(words(&back)[..128], sums);
    assert_eq!(report.total().wavefronts, 4 * STEPS as u64);
}

#[test]
fn a_consumer_that_does_not_wait_is_caught() {
    let ptx = pipeline()
        .replace("@!%p3 bra WAIT_FULL;", "")
        .replace("mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r8;\n    \n    mad", "mad");
    let f = fault(&ptx, 160, 0, &bytes(&data()));
    assert!(matches!(f.kind, FaultKind::MissingWait | FaultKind::Uninitialised), "{f}");
    assert!(f.instruction.starts_with("ld.shared"), "{f}");
}

#[test]
fn a_producer_that_does_not_wait_is_caught() {
    let ptx = pipeline();
    let wait = "    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r8;\n    @!%p3 bra WAIT_EMPTY;\n";
    assert!(ptx.contains(wait));
    let ptx = ptx.replace(wait, "");
    let f = fault(&ptx, 160, 0, &bytes(&data()));
    // The stage is still full: the phase has had its arrival.
    expect(&ptx, &f, FaultKind::Invalid, "mbarrier.arrive.expect_tx", &["expects 0 more"]);
}

#[test]
fn a_forgotten_arrival_is_a_deadlock() {
    let ptx = pipeline().replace("    mbarrier.arrive.shared::cta.b64 _, [%r9];\n", "");
    let f = fault(&ptx, 160, 0, &bytes(&data()));
    let words = ["deadlock", "warp 4 waits for the mbarrier", "128 arrivals", "warp 0 waits"];
    expect(&ptx, &f, FaultKind::Deadlock, "mbarrier.try_wait", &words);
    // Too few bytes announced, and too many.
    let ptx = pipeline().replace("[%r9], 512;", "[%r9], 528;");
    let f = fault(&ptx, 160, 0, &bytes(&data()));
    expect(&ptx, &f, FaultKind::Deadlock, "mbarrier.try_wait", &["16 bytes missing"]);
}

#[test]
fn an_mbarrier_needs_a_barrier_after_its_initialisation() {
    let ptx = pipeline().replace("READY:\n    bar.sync 0;", "READY:");
    let f = fault(&ptx, 160, 0, &bytes(&data()));
    assert_eq!(f.kind, FaultKind::Race, "{f}");
    assert!(f.message.contains("was initialised by warp 0"), "{f}");
}

/// Loads one box of a tensor and copies shared memory to the output, 16 bytes a thread.
fn tensor_load(rank: usize) -> String {
    let coordinates: Vec<String> = (0..rank).map(|d| format!("%c{d}")).collect();
    let loads: String =
        (0..rank).map(|d| format!("ld.global.u32 %c{d}, [%rd1+{}];\n", 16 + 4 * d)).collect();
    kernel(
        "sm_90a",
        ".shared .align 1024 .b8 staged[4096];\n.shared .align 8 .b64 bar;",
        &format!(
            "
    .reg .b32 %r<10>, %c<5>;
    .reg .b64 %rd<10>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [buffer];
    ld.global.u64 %rd2, [%rd1];
    ld.global.u32 %r9, [%rd1+8];
    {loads}
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, staged;
    mov.u32 %r3, bar;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra WAIT_INIT;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r9;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd2, {{{}}}], [%r3];
WAIT_INIT:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra WAIT;
    shl.b32 %r4, %r1, 4;
    setp.ge.u32 %p3, %r4, %r9;
    @%p3 bra END;
    add.u32 %r5, %r2, %r4;
    ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r5];
    cvt.u64.u32 %rd3, %r4;
    add.u64 %rd3, %rd1, %rd3;
    st.global.v4.b32 [%rd3+64], {{%r5, %r6, %r7, %r8}};
END:
    ret;",
            coordinates.join(", ")
        ),
    )
}

/// Runs [`tensor_load`] over `tensor`, whose elements of `map.element_bytes` are numbered from 1.
fn load_box(mut map: TensorMap, elements: u64, origin: &[i32]) -> Result<Vec<u8>, Error> {
    let rank = map.shape.len();
    let module = Module::parse(&tensor_load(rank))?;
    let memory = Memory::new();
    let width = u64::from(map.element_bytes);
    let tensor = memory.alloc(elements * width);
    let data: Vec<u8> =
        (1..=elements).flat_map(|i| i.to_le_bytes()[..width as usize].to_vec()).collect();
    memory.write(tensor, &data)?;
    map.address = tensor;
    let encoded = memory.alloc(128);
    memory.write(encoded, &map.encode()?)?;
    let bytes = map.box_bytes();
    let buffer = memory.alloc(64 + bytes.next_multiple_of(16));
    memory.write(buffer, &encoded.to_le_bytes())?;
    memory.write(buffer + 8, &(bytes as u32).to_le_bytes())?;
    for (d, c) in origin.iter().enumerate() {
        memory.write(buffer + 16 + 4 * d as u64, &c.to_le_bytes())?;
    }
    launch(
        &module,
        &memory,
        Launch {
            entry: "k",
            grid: [1, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
            params: &buffer.to_le_bytes(),
            ..Launch::default()
        },
    )?;
    let mut back = vec![0; bytes as usize];
    memory.read(buffer + 64, &mut back)?;
    Ok(back)
}

#[test]
fn tensor_copies_pad_with_zeros_and_swizzle() {
    // 20 rows of 100 bytes in rows of 112; a box of 16 rows by 32, 64 or 128 bytes that hangs over two
    // edges of the tensor.
    for (swizzle, inner) in [(0, 48), (32, 32), (64, 64), (128, 128)] {
        for origin in [[0, 0], [-5, -3], [64, 12], [200, 0]] {
            let map = TensorMap {
                address: 0,
                element_bytes: 1,
                shape: vec![100, 20],
                strides: vec![112],
                box_shape: vec![inner, 16],
                element_strides: vec![1, 1],
                swizzle,
            };
            let back = load_box(map, 20 * 112, &origin).unwrap();
            for row in 0..16i64 {
                for column in 0..i64::from(inner) {
                    let (y, x) = (row + i64::from(origin[1]), column + i64::from(origin[0]));
                    let inside = (0..20).contains(&y) && (0..100).contains(&x);
                    let expected = if inside { (112 * y + x + 1) as u8 } else { 0 };
                    // Unit u of 16 bytes in line r of 128 goes to unit u ^ (r mod 8), of which the
                    // narrower swizzles take one or two bits.
                    let at = row as usize * inner as usize + column as usize;
                    let (line, unit) = (at / 128, at / 16 % 8);
                    let place = match swizzle {
                        128 => unit ^ (line % 8),
                        64 => unit ^ (line % 4),
                        32 => unit ^ (line % 2),
                        _ => unit,
                    };
                    let found = back[128 * line + 16 * place + at % 16];
                    assert_eq!(
                        found, expected,
                        "swizzle {swizzle}, origin {origin:?}, {row}, {column}"
                    );
                }
            }
        }
    }
}

#[test]
fn tensor_copies_of_every_rank() {
    for rank in 1..=5usize {
        let shape = [24u64, 5, 4, 3, 2][..rank].to_vec();
        let strides: Vec<u64> = (1..rank).map(|d| 4 * shape[..d].iter().product::<u64>()).collect();
        let box_shape = [8u32, 3, 2, 2, 2][..rank].to_vec();
        let mut element_strides = vec![1; rank];
        if rank > 1 {
            element_strides[1] = 2;
        }
        let origin = [20, 1, -1, 2, 1][..rank].to_vec();
        let elements = shape.iter().product();
        let map = TensorMap {
            address: 0,
            element_bytes: 4,
            shape: shape.clone(),
            strides,
            box_shape: box_shape.clone(),
            element_strides: element_strides.clone(),
            swizzle: 0,
        };
        let back = words(&load_box(map, elements, &origin).unwrap());
        for (i, &found) in back.iter().enumerate() {
            let (mut rest, mut index, mut pitch, mut inside) = (i as u32, 0i64, 1i64, true);
            for d in 0..rank {
                let at = i64::from(rest % box_shape[d] * element_strides[d]) + i64::from(origin[d]);
                rest /= box_shape[d];
                inside &= (0..shape[d] as i64).contains(&at);
                index += at * pitch;
                pitch *= shape[d] as i64;
            }
            assert_eq!(
                found,
                if inside { index as u32 + 1 } else { 0 },
                "rank {rank}, element {i}"
            );
        }
    }
}

#[test]
fn a_tensor_map_must_stand_where_the_kernel_looks() {
    let memory = Memory::new();
    let module = Module::parse(&tensor_load(2)).unwrap();
    let buffer = memory.alloc(256);
    memory.zero(buffer, 256).unwrap();
    memory.write(buffer, &(buffer + 128).to_le_bytes()).unwrap();
    memory.write(buffer + 8, &64u32.to_le_bytes()).unwrap();
    let result = launch(
        &module,
        &memory,
        Launch {
            entry: "k",
            grid: [1, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            params: &buffer.to_le_bytes(),
            ..Launch::default()
        },
    );
    let Err(Error::Fault(f)) = result else { panic!("{result:?}") };
    assert!(f.message.contains("no tensor map"), "{f}");
}

/// One wgmma of zeros; `FENCE`, `PROXY`, `WAIT` mark what the tests take out.
fn group_multiply() -> String {
    kernel(
        "sm_90a",
        ".shared .align 1024 .b8 staged[2304];",
        "
    .reg .b32 %r<10>, %d<4>;
    .reg .b64 %rd<6>;
    .reg .pred %p<3>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, staged;
    mad.lo.u32 %r3, %r1, 16, %r2;
    mov.u32 %r4, 0x01010101;
    st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};
    setp.lt.u32 %p1, %r1, 16;
    @%p1 st.shared.v4.b32 [%r3+2048], {%r4, %r4, %r4, %r4};
    fence.proxy.async; // PROXY
    bar.sync 0;
    shr.u32 %r5, %r2, 4;
    cvt.u64.u32 %rd2, %r5;
    or.b64 %rd2, %rd2, 0x1000080000;
    add.u64 %rd3, %rd2, 128;
    mov.u32 %d0, 5;
    mov.u32 %d1, 5;
    mov.u32 %d2, 5;
    mov.u32 %d3, 5;
    setp.eq.u32 %p2, %r2, %r2;
    wgmma.fence.sync.aligned; // FENCE
    wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0, %d1, %d2, %d3}, %rd2, %rd3, %p2;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0; // WAIT
    mul.wide.u32 %rd4, %r1, 16;
    add.u64 %rd4, %rd1, %rd4;
    st.global.v4.b32 [%rd4], {%d0, %d1, %d2, %d3};
    xor.b32 %r6, %r3, 512;
    st.shared.v4.b32 [%r6], {%r4, %r4, %r4, %r4}; // REUSE
    ret;",
    )
}

fn without(mark: &str) -> (String, Fault) {
    let ptx: String = group_multiply()
        .lines()
        .map(|line| if line.ends_with(mark) { "\n".into() } else { format!("{line}\n") })
        .collect();
    let f = fault(&ptx, 128, 0, &[0; 2048]);
    (ptx, f)
}

#[test]
fn wgmma_needs_its_fences_and_waits() {
    // Each warp overwrites rows that its neighbour reads: a barrier belongs before the reuse.
    let (ptx, f) = without("no such mark");
    let words = ["bytes written by warp 0", "`st.shared.v4.b32 [%r6], {%r4, %r4, %r4, %r4}`"];
    expect(&ptx, &f, FaultKind::Race, "wgmma.mma_async", &words);
    let whole =
        group_multiply().replace("    st.shared.v4.b32 [%r6], {%r4, %r4, %r4, %r4}; // REUSE", "");
    let (back, report) = common::run(&whole, 128, 0, &[0; 2048]).unwrap();
    assert_eq!(common::words(&back), vec![37; 512]);
    assert_eq!(report.tensor_operations, 2 * 64 * 8 * 32);

    let (ptx, f) = without("// WAIT");
    expect(&ptx, &f, FaultKind::MissingWait, "st.global", &["wgmma.wait_group is missing"]);
    let (ptx, f) = without("// FENCE");
    expect(&ptx, &f, FaultKind::MissingWait, "wgmma.mma_async", &["wgmma.fence is missing"]);
    let (ptx, f) = without("// PROXY");
    let words = ["fence.proxy.async", "written by warp"];
    expect(&ptx, &f, FaultKind::MissingWait, "wgmma.mma_async", &words);
}

#[test]
fn overwriting_an_operand_in_flight_is_caught() {
    let ptx = group_multiply()
        .replace("    st.global.v4.b32 [%rd4], {%d0, %d1, %d2, %d3};\n", "")
        .replace("    wgmma.wait_group.sync.aligned 0; // WAIT\n", "    bar.sync 0;\n");
    let f = fault(&ptx, 128, 0, &[0; 2048]);
    let words = ["still being read", "wgmma.wait_group"];
    expect(&ptx, &f, FaultKind::MissingWait, "// REUSE", &words);
}

/// Fills shared memory with its own offsets in words, then stores a box to a tensor.
fn tensor_store() -> String {
    kernel(
        "sm_90a",
        ".shared .align 1024 .b8 staged[1024];",
        "
    .reg .b32 %r<10>;
    .reg .b64 %rd<10>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [buffer];
    ld.global.u64 %rd2, [%rd1];
    ld.global.v2.u32 {%r8, %r9}, [%rd1+8];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, staged;
    mad.lo.u32 %r3, %r1, 4, %r2;
    add.u32 %r4, %r1, 1;
    st.shared.u32 [%r3], %r4;
    fence.proxy.async;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra END;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r8, %r9}], [%r2];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
END:
    bar.sync 0;
    st.shared.u32 [%r3], %r1;
    ret;",
    )
}

fn store_box(ptx: &str, swizzle: u32, origin: [i32; 2]) -> Result<Vec<u32>, Error> {
    let module = Module::parse(ptx)?;
    let memory = Memory::new();
    // 10 rows of 40 words in rows of 48, and a box of 8 rows by the swizzle's width.
    let tensor = memory.alloc(10 * 48 * 4);
    memory.zero(tensor, 10 * 48 * 4)?;
    let map = TensorMap {
        address: tensor,
        element_bytes: 4,
        shape: vec![40, 10],
        strides: vec![4 * 48],
        box_shape: vec![if swizzle == 0 { 32 } else { swizzle / 4 }, 8],
        element_strides: vec![1, 1],
        swizzle,
    };
    let encoded = memory.alloc(128);
    memory.write(encoded, &map.encode()?)?;
    let buffer = memory.alloc(16);
    memory.write(buffer, &encoded.to_le_bytes())?;
    memory.write(buffer + 8, &bytes(&origin.map(|c| c as u32)))?;
    let params = buffer.to_le_bytes();
    let grid = Launch {
        entry: "k",
        grid: [1, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        params: &params,
        ..Launch::default()
    };
    launch(&module, &memory, grid)?;
    let mut back = vec![0; 10 * 48 * 4];
    memory.read(tensor, &mut back)?;
    Ok(words(&back))
}

#[test]
fn tensor_stores_leave_what_is_outside_alone() {
    for (swizzle, inner) in [(0, 32i32), (64, 16), (128, 32)] {
        for origin in [[0, 0], [-3, -2], [24, 5]] {
            let tensor = store_box(&tensor_store(), swizzle, origin).unwrap();
            let mut expected = vec![0; 480];
            for row in 0..8 {
                for column in 0..inner {
                    let (x, y) = (column + origin[0], row + origin[1]);
                    let byte = 4 * (row * inner + column) as u32;
                    let flips = match swizzle {
                        128 => byte / 128 % 8,
                        64 => byte / 128 % 4,
                        _ => 0,
                    };
                    if (0..40).contains(&x) && (0..10).contains(&y) {
                        expected[(48 * y + x) as usize] = (byte ^ (16 * flips)) / 4 + 1;
                    }
                }
            }
            assert_eq!(tensor, expected, "swizzle {swizzle}, origin {origin:?}");
        }
    }
}

#[test]
fn reusing_the_source_of_a_bulk_store_needs_its_wait() {
    let ptx = tensor_store().replace("cp.async.bulk.wait_group.read 0;", "");
    let Err(Error::Fault(f)) = store_box(&ptx, 0, [0, 0]) else { panic!("ran through") };
    expect(&ptx, &f, FaultKind::MissingWait, "st.shared", &["cp.async.bulk.wait_group is missing"]);
    let ptx = tensor_store().replace("fence.proxy.async;", "");
    let Err(Error::Fault(f)) = store_box(&ptx, 0, [0, 0]) else { panic!("ran through") };
    expect(&ptx, &f, FaultKind::MissingWait, "cp.async.bulk.tensor", &["fence.proxy.async"]);
}

#[test]
fn bulk_reductions_add_to_global_memory() {
    let ptx = kernel(
        "sm_90a",
        ".shared .align 128 .b8 staged[256];",
        "
    .reg .b32 %r<10>;
    .reg .b64 %rd<10>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, staged;
    mad.lo.u32 %r3, %r1, 4, %r2;
    mul.lo.u32 %r4, %r1, 5;
    st.shared.u32 [%r3], %r4;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra END;
    mov.u32 %r5, 256;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], %r5;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    ret;",
    );
    let (back, _) = common::run(&ptx, 64, 0, &bytes(&[7; 64])).unwrap();
    assert_eq!(words(&back), (0..64).map(|i| 7 + 5 * i).collect::<Vec<u32>>());
}
