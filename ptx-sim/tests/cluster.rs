//! Thread block clusters: ranks, the barrier, and shared memory of other blocks.

mod common;

use common::{bytes, expect, words};
use ptx_sim::{Error, Fault, FaultKind, Launch, Memory, Module, launch};

/// Every thread leaves its number in the grid, and takes what the same thread of the next block of its cluster has.
fn rotate() -> String {
    "\
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 shared[];
.visible .entry k(.param .u64 buffer)
.maxntid 64, 1, 1
.reqnctapercluster 4, 1, 1
{
    .reg .b32 %r<12>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 64, %r1;
    shl.b32 %r4, %r1, 2;
    mov.u32 %r5, shared;
    add.u32 %r5, %r5, %r4;
    st.shared.u32 [%r5], %r3;
    barrier.cluster.arrive.release.aligned;
    mov.u32 %r6, %cluster_ctarank;
    mov.u32 %r7, %cluster_nctarank;
    add.u32 %r8, %r6, 1;
    rem.u32 %r8, %r8, %r7;
    mapa.shared::cluster.u32 %r9, %r5, %r8;
    barrier.cluster.wait.acquire.aligned;
    ld.shared::cluster.u32 %r10, [%r9];
    barrier.cluster.arrive.release.aligned;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r10;
    barrier.cluster.wait.acquire.aligned;
    ret;
}
"
    .to_owned()
}

/// Runs `k` on so many blocks of 64 threads.
fn run(ptx: &str, blocks: u32) -> Result<Vec<u32>, Error> {
    let module = Module::parse(ptx)?;
    let memory = Memory::new();
    let zero = bytes(&vec![u32::MAX; 64 * blocks as usize]);
    let buffer = memory.alloc(zero.len() as u64);
    memory.write(buffer, &zero)?;
    let grid = [blocks, 1, 1];
    let params = &buffer.to_le_bytes();
    let launched = Launch { entry: "k", grid, block: [64, 1, 1], shared_bytes: 256, params };
    launch(&module, &memory, launched)?;
    let mut back = vec![0; zero.len()];
    memory.read(buffer, &mut back)?;
    Ok(words(&back))
}

fn fault(ptx: &str) -> Fault {
    match run(ptx, 4) {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("not a fault: {other:?}"),
    }
}

#[test]
fn blocks_read_each_other() {
    let back = run(&rotate(), 8).unwrap();
    for (index, &word) in back.iter().enumerate() {
        let (block, thread) = (index / 64, index % 64);
        let next = block / 4 * 4 + (block + 1) % 4;
        assert_eq!(word as usize, 64 * next + thread);
    }
}

#[test]
fn a_grid_is_whole_clusters() {
    let error = run(&rotate(), 6).unwrap_err().to_string();
    assert!(error.contains("6 blocks along x, expected a multiple of 4"), "{error}");
    for (from, to, expected) in
        [("4, 1, 1", "4, 2, 1", "along y and z"), ("4, 1, 1", "9, 1, 1", "expected 1 to 8 blocks")]
    {
        let error = Module::parse(&rotate().replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn missing_barriers_are_found() {
    // No barrier before the read.
    let ptx = rotate().replacen("    barrier.cluster.arrive.release.aligned;\n", "", 1).replacen(
        "    barrier.cluster.wait.acquire.aligned;\n",
        "",
        1,
    );
    let found = fault(&ptx);
    let words = ["before a barrier of the cluster"];
    expect(&ptx, &found, FaultKind::OutOfBounds, "ld.shared::cluster", &words);
    // None after it: the first block ends before the last has read.
    let (head, tail) = rotate()
        .split_once("    ld.shared::cluster")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let tail = tail
        .replace("    barrier.cluster.arrive.release.aligned;\n", "")
        .replace("    barrier.cluster.wait.acquire.aligned;\n", "");
    let ptx = format!("{head}    ld.shared::cluster{tail}");
    let found = fault(&ptx);
    expect(&ptx, &found, FaultKind::OutOfBounds, "ld.shared::cluster", &["which has ended"]);
}

#[test]
fn mistakes_at_the_barrier_are_found() {
    let wait = "    barrier.cluster.wait.acquire.aligned;\n";
    let arrive = "    barrier.cluster.arrive.release.aligned;\n";
    let ptx = rotate().replacen(wait, "", 1);
    let found = fault(&ptx);
    expect(&ptx, &found, FaultKind::OutOfBounds, "ld.shared::cluster", &["before a barrier"]);
    let ptx = rotate().replacen(arrive, &arrive.repeat(2), 1);
    expect(&ptx, &fault(&ptx), FaultKind::Divergence, "arrive", &["twice"]);
    let ptx = rotate().replacen(arrive, "", 1);
    expect(&ptx, &fault(&ptx), FaultKind::Divergence, "wait", &["has not arrived"]);
    // One block waits for what never comes.
    let never = "    setp.eq.u32 %p, %r6, 2;\n    @%p bra FOREVER;\n";
    let ptx = rotate()
        .replace("    .reg .b64 %rd<4>;", "    .reg .b64 %rd<4>;\n    .reg .pred %p;")
        .replacen(wait, &format!("{never}{wait}"), 1)
        .replace("    ret;\n", "    ret;\nFOREVER:\n    bar.sync 1, 128;\n    ret;\n");
    expect(&ptx, &fault(&ptx), FaultKind::Deadlock, "bar.sync", &["deadlock"]);
    let ptx = rotate().replace("%r9, %r5, %r8;", "%r9, %r5, 4;");
    let found = fault(&ptx);
    expect(&ptx, &found, FaultKind::OutOfBounds, "ld.shared::cluster", &["which has 4 blocks"]);
    let ptx = rotate().replace("    st.shared.u32 [%r5], %r3;\n", "");
    let found = fault(&ptx);
    expect(&ptx, &found, FaultKind::Uninitialised, "ld.shared::cluster", &["nothing has written"]);
}

/// The mended twin of a file of `tests/faults`.
fn mended(text: &str) -> String {
    let lines = text.lines().map(|line| if line.ends_with("//-") { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// Words of a buffer of `count` after `k` has run on four blocks of a warp; word i was i at first.
fn four_blocks(ptx: &str, count: u32) -> Vec<u32> {
    let module = Module::parse(ptx).unwrap();
    let memory = Memory::new();
    let buffer = memory.alloc(u64::from(4 * count));
    memory.write(buffer, &bytes(&(0..count).collect::<Vec<_>>())).unwrap();
    let params = &buffer.to_le_bytes();
    let (grid, block) = ([4, 1, 1], [32, 1, 1]);
    launch(&module, &memory, Launch { entry: "k", grid, block, shared_bytes: 0, params }).unwrap();
    let mut back = vec![0; 4 * count as usize];
    memory.read(buffer, &mut back).unwrap();
    words(&back)
}

#[test]
fn stores_atomics_and_copies_reach_other_blocks() {
    let other = |i: u32| (i / 32 ^ 1) * 32 + i % 32;
    let swapped: Vec<u32> = (0..128).map(other).collect();
    let stored = mended(include_str!("faults/cluster-store-no-barrier.ptx"));
    assert_eq!(four_blocks(&stored, 128), swapped);
    let handed = mended(include_str!("faults/cluster-mbarrier-no-wait.ptx"));
    assert_eq!(four_blocks(&handed, 128), swapped);
    // The first block of each cluster holds the count of both.
    let counted = mended(include_str!("faults/cluster-atomic-not-initialised.ptx"));
    let counts: Vec<u32> = (0..128).map(|i| if i / 32 % 2 == 0 { 64 } else { 0 }).collect();
    assert_eq!(four_blocks(&counted, 128), counts);
    // Both blocks of the first cluster add what came first and second.
    let sent = mended(include_str!("faults/multicast-sent-too-early.ptx"));
    let sums: Vec<u32> = (0..64).map(|i| i % 32 + 32 + i % 32).collect();
    assert_eq!(four_blocks(&sent, 128)[64..], sums);
}
