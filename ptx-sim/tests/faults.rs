//! Planted mistakes: each must be caught, and named.

mod common;

use common::{bytes, expect, fault, kernel, run, words};
use ptx_sim::{Error, FaultKind, Launch, Memory, Module, launch};

const SHARED: &str = ".extern .shared .align 16 .b8 shared[];";

/// Reverses 128 words through shared memory, staged by cp.async: thread t writes word 127 - t.
fn reverse() -> String {
    kernel(
        "sm_80",
        SHARED,
        "
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r2, shared;
    shl.b32 %r3, %r1, 2;
    add.u32 %r4, %r2, %r3;
    cp.async.ca.shared.global [%r4], [%rd3], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    sub.u32 %r5, 508, %r3;
    add.u32 %r5, %r2, %r5;
    ld.shared.u32 %r6, [%r5];
    st.global.u32 [%rd3], %r6;
    ret;",
    )
}

fn data() -> Vec<u8> {
    bytes(&(0..128).map(|i| i * 3 + 1).collect::<Vec<_>>())
}

#[test]
fn the_kernel_without_a_mistake_runs() {
    let (back, report) = run(&reverse(), 128, 512, &data()).unwrap();
    let expected: Vec<u32> = (0..128).rev().map(|i| i * 3 + 1).collect();
    assert_eq!(words(&back), expected);
    assert_eq!(report.total().divergent, 0);
    // 4 warps copy in, 4 warps read.
    assert_eq!((report.total().wavefronts, report.total().ideal_wavefronts), (8, 8));
    assert_eq!((report.total().sectors, report.total().ideal_sectors), (32, 32));
}

#[test]
fn blocks_smaller_than_declared_are_told() {
    let declared = |threads: u32| {
        let (head, body) = (".entry k(.param .u64 buffer)", reverse());
        body.replace(head, &format!("{head}\n.maxntid {threads}, 1, 1"))
    };
    let short = |threads| fault(&declared(threads), 64, 512, &data());
    let words = ["nothing has written it", "64 threads a block", "built for 128 (.maxntid)"];
    expect(&declared(128), &short(128), FaultKind::Uninitialised, "ld.shared", &words);
    assert!(!short(64).to_string().contains(".maxntid"));
}

#[test]
fn a_removed_wait_group_is_caught() {
    let ptx = reverse().replace("cp.async.wait_group 0;", "");
    let f = fault(&ptx, 128, 512, &data());
    expect(&ptx, &f, FaultKind::MissingWait, "ld.shared", &["cp.async.wait_group", "missing"]);
    // Waiting for all but the latest group leaves the only group pending.
    let ptx = reverse().replace("wait_group 0", "wait_group 1");
    let f = fault(&ptx, 128, 512, &data());
    expect(&ptx, &f, FaultKind::MissingWait, "ld.shared", &["cp.async.wait_group"]);
    // A copy that was not committed is in no group.
    let ptx = reverse().replace("cp.async.commit_group;", "");
    let f = fault(&ptx, 128, 512, &data());
    expect(&ptx, &f, FaultKind::MissingWait, "ld.shared", &["cp.async.wait_group"]);
}

#[test]
fn a_removed_barrier_is_caught() {
    let ptx = reverse().replace("bar.sync 0;", "");
    let f = fault(&ptx, 128, 512, &data());
    // The first warp reads what the last has not written yet.
    expect(&ptx, &f, FaultKind::Uninitialised, "ld.shared", &["nothing has written"]);
    // If old data lies there, it is a race.
    let ptx = reverse()
        .replace("bar.sync 0;", "")
        .replace("cp.async.ca", "st.shared.u32 [%r4], %r1;\n bar.sync 0;\n cp.async.ca");
    let f = fault(&ptx, 128, 512, &data());
    expect(&ptx, &f, FaultKind::Race, "cp.async.ca", &["race", "bytes read by warp 1"]);
}

#[test]
fn a_race_between_warps_is_caught() {
    // Every warp writes the same words.
    let ptx = kernel(
        "sm_80",
        SHARED,
        "
    .reg .b32 %r<8>;
    mov.u32 %r1, %laneid;
    mov.u32 %r2, %tid.x;
    shl.b32 %r1, %r1, 2;
    mov.u32 %r3, shared;
    add.u32 %r3, %r3, %r1;
    st.shared.u32 [%r3], %r2;
    ret;",
    );
    let f = fault(&ptx, 64, 128, &[0; 16]);
    expect(&ptx, &f, FaultKind::Race, "st.shared", &["by warp 0, lane 0", "st.shared.u32 [%r3]"]);
    assert_eq!((f.warp, f.lane), (1, Some(0)));
}

#[test]
fn a_barrier_orders_only_what_lies_before_it() {
    // Both warps meet at a barrier, read, and the first to be done writes.
    let ptx = kernel(
        "sm_80",
        SHARED,
        "
    .reg .b32 %r<8>;
    .reg .pred %p<2>;
    mov.u32 %r1, %laneid;
    mov.u32 %r2, %tid.x;
    shl.b32 %r1, %r1, 2;
    mov.u32 %r3, shared;
    add.u32 %r3, %r3, %r1;
    setp.lt.u32 %p1, %r2, 32;
    @%p1 st.shared.u32 [%r3], %r2;
    bar.sync 1, 64;
    ld.shared.u32 %r4, [%r3];
    @%p1 st.shared.u32 [%r3], %r4;
    ret;",
    );
    let f = fault(&ptx, 64, 128, &[0; 16]);
    let words = ["read of bytes written by warp 0, lane 0", "`@%p1 st.shared.u32 [%r3], %r4`"];
    expect(&ptx, &f, FaultKind::Race, "ld.shared", &words);
    run(&ptx.replace("    @%p1 st.shared.u32 [%r3], %r4;\n", ""), 64, 128, &[0; 16]).unwrap();
}

#[test]
fn a_write_after_another_warps_read_is_caught() {
    let ptx = kernel(
        "sm_80",
        SHARED,
        "
    .reg .b32 %r<8>;
    .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, shared;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    ld.shared.u32 %r5, [%r3];
    bar.sync 0;
    setp.eq.u32 %p1, %r1, 32;
    @%p1 st.shared.u32 [%r3], %r1;
    ret;",
    );
    run(&ptx, 64, 256, &[0; 16]).unwrap();
    let second = ptx.rfind("bar.sync 0;").unwrap();
    let without = format!("{}{}", &ptx[..second], &ptx[second + "bar.sync 0;".len()..]);
    let f = fault(&without, 64, 256, &[0; 16]);
    expect(&without, &f, FaultKind::Race, "@%p1 st.shared", &["bytes read by warp 0"]);
}

#[test]
fn lanes_of_a_warp_need_a_warp_barrier() {
    let ptx = kernel(
        "sm_80",
        SHARED,
        "
    .reg .b32 %r<8>;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, shared;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    bar.warp.sync -1;
    xor.b32 %r5, %r4, 4;
    ld.shared.u32 %r6, [%r5];
    ret;",
    );
    run(&ptx, 32, 128, &[0; 16]).unwrap();
    let without = ptx.replace("bar.warp.sync -1;", "");
    let f = fault(&without, 32, 128, &[0; 16]);
    expect(&without, &f, FaultKind::Race, "ld.shared", &["warp 0, lane 1", "bar.warp.sync"]);
}

#[test]
fn accesses_out_of_bounds_are_caught() {
    let global = kernel(
        "sm_80",
        "",
        "
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;",
    );
    run(&global, 32, 0, &[0; 128]).unwrap();
    let f = fault(&global, 32, 0, &[0; 124]);
    expect(
        &global,
        &f,
        FaultKind::OutOfBounds,
        "st.global",
        &["0 bytes past the end of the 124 bytes"],
    );
    assert_eq!(f.lane, Some(31));
    // One word further, misaligned by one byte.
    let shifted = global.replace("[%rd3]", "[%rd3+1]");
    let f = fault(&shifted, 32, 0, &[0; 256]);
    expect(&shifted, &f, FaultKind::Misaligned, "st.global", &["not a multiple of 4"]);

    let shared = kernel(
        "sm_80",
        SHARED,
        "
    .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, shared;
    mad.lo.u32 %r2, %r1, 16, %r2;
    st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1};
    ret;",
    );
    run(&shared, 32, 512, &[0; 16]).unwrap();
    let f = fault(&shared, 32, 511, &[0; 16]);
    expect(&shared, &f, FaultKind::OutOfBounds, "st.shared", &["outside of the block's 511 bytes"]);
    assert_eq!(f.lane, Some(31));

    let local = kernel(
        "sm_80",
        "",
        "
    .local .align 8 .b8 depot[16];
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    mov.u64 %rd1, depot;
    cvta.local.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    st.u32 [%rd2], %r1;
    ret;",
    );
    run(&local, 4, 0, &[0; 16]).unwrap();
    let f = fault(&local, 5, 0, &[0; 16]);
    expect(&local, &f, FaultKind::OutOfBounds, "st.u32", &["frame of 16 bytes"]);
    assert_eq!(f.lane, Some(4));
}

#[test]
fn barriers_in_divergent_code_are_caught() {
    let ptx = kernel(
        "sm_80",
        "",
        "
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra SKIP;
    bar.sync 0;
SKIP:
    ret;",
    );
    let f = fault(&ptx, 64, 0, &[0; 16]);
    expect(&ptx, &f, FaultKind::Divergence, "bar.sync", &["barrier divergence", "0x0000ffff"]);
    // Half of the warps exit: they are not waited for.
    let warps = ptx.replace("%r1, 16", "%r1, 32");
    run(&warps, 64, 0, &[0; 16]).unwrap();
}

/// Warp 1 waits at barrier 1 for 64 threads, warp 0 at another instruction, at barrier `number`.
fn apart(number: u32) -> String {
    kernel(
        "sm_80",
        "",
        &format!(
            "
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 bra OTHER;
    bar.sync 1, 64;
    bra.uni END;
OTHER:
    bar.sync {number}, 64;
END:
    ret;"
        ),
    )
}

#[test]
fn warps_meet_at_one_aligned_barrier() {
    let ptx = apart(1);
    let aligned = ptx.replace("bar.sync", "barrier.sync.aligned");
    for (ptx, word) in [(&ptx, "bar.sync 1"), (&aligned, "barrier.sync.aligned 1")] {
        let f = fault(ptx, 64, 0, &[0; 16]);
        expect(ptx, &f, FaultKind::Divergence, word, &["at the barrier on line", "aligned"]);
    }
    run(&ptx.replace("bar.sync", "barrier.sync"), 64, 0, &[0; 16]).unwrap();
    // Threads that only arrive do so elsewhere.
    run(&ptx.replacen("bar.sync", "bar.arrive", 1), 64, 0, &[0; 16]).unwrap();
}

#[test]
fn collectives_need_their_lanes() {
    let ptx = kernel(
        "sm_80",
        "",
        "
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra SKIP;
    shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
SKIP:
    ret;",
    );
    let f = fault(&ptx, 32, 0, &[0; 16]);
    expect(&ptx, &f, FaultKind::Divergence, "shfl", &["0x0000ffff", "not here"]);
    run(&ptx.replace("31, -1", "31, 0xffff0000"), 32, 0, &[0; 16]).unwrap();

    let ptx = ptx.replace(
        "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r2, %r3}, {%r1}, {%r1}, {%r1, %r1};",
    );
    let f = fault(&ptx, 32, 0, &[0; 16]);
    expect(&ptx, &f, FaultKind::Divergence, "mma.sync", &["needs all of them"]);
}

#[test]
fn deadlocks_name_what_each_warp_waits_for() {
    let ptx = apart(2);
    let f = fault(&ptx, 64, 0, &[0; 16]);
    let waits = ["warp 0 waits at barrier 2 on line", "warp 1 waits at barrier 1 on line"];
    expect(&ptx, &f, FaultKind::Deadlock, "bar.sync 2", &waits);
}

#[test]
fn traps_stop_the_run() {
    let ptx = kernel("sm_80", "", "trap;");
    let f = fault(&ptx, 32, 0, &[0; 16]);
    expect(&ptx, &f, FaultKind::Trap, "trap", &["trapped"]);
}

#[test]
fn unknown_instructions_and_modifiers_are_errors() {
    for (body, named) in [
        ("frobnicate.u32 %r1, %r2;", "frobnicate"),
        ("add.wrong.u32 %r1, %r1, %r2;", ".wrong"),
        ("ld.global.frob.u32 %r1, [%rd1];", ".frob"),
        ("tex.2d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [%rd1];", "tex"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.f16.s32 {%r1}, {%r1}, {%r1}, {%r1};", "F16"),
        ("add.u32 %r1, %r9, %r2;", "%r9"),
        ("add.u64 %rd1, %rd1, %r2;", "%r2"),
        ("bra NOWHERE;", "NOWHERE"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 8;", "8 bytes"),
        ("call.uni somewhere, ();", "somewhere"),
    ] {
        let body = format!(".reg .b32 %r<4>;\n .reg .b64 %rd<4>;\n{body}\nret;");
        let ptx = kernel("sm_80", "", &body);
        let module = Module::parse(&ptx).unwrap();
        match module.refused().next() {
            Some(("k", Error::Unsupported { line, instruction, message })) => {
                assert_eq!(*line, 9, "{instruction}");
                assert!(message.contains(named) || instruction.contains(named), "{message}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

/// Blocks that store the same value to the same words are no race, however the host's threads run them.
#[test]
fn the_same_value_by_many_blocks_is_no_race() {
    const WORDS: u32 = 20_000;
    let store = |value: &str| {
        kernel(
            "sm_80",
            "",
            &format!(
                "
    .reg .b32 %r<5>;
    .reg .b64 %rd<2>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, 0;
    mov.u32 %r4, 0;
NEXT:
    st.global.u32 [%rd1], {value};
    add.u64 %rd1, %rd1, 4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, {WORDS};
    @%p1 bra NEXT;
    ret;"
            ),
        )
    };
    let run = |ptx: &str| {
        let module = Module::parse(ptx).unwrap();
        let memory = Memory::new();
        let buffer = memory.alloc(4 * u64::from(WORDS));
        memory.write(buffer, &[9; 4 * WORDS as usize]).unwrap();
        let (grid, block) = ([4, 1, 1], [1, 1, 1]);
        let params = &buffer.to_le_bytes();
        launch(&module, &memory, Launch { entry: "k", grid, block, params, ..Launch::default() })
    };
    for _ in 0..10 {
        let report = run(&store("%r3")).unwrap();
        assert_eq!(report.same_value.len(), 1);
        let error = run(&store("%r2")).unwrap_err().to_string();
        assert!(error.contains("race"), "{error}");
    }
}
