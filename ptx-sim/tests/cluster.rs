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

/// Runs `k` on a number of blocks of 64 threads.
fn run(ptx: &str, blocks: u32) -> Result<Vec<u32>, Error> {
    let module = Module::parse(ptx)?;
    let memory = Memory::new();
    let zero = bytes(&vec![u32::MAX; 64 * blocks as usize]);
    let buffer = memory.alloc(zero.len() as u64);
    memory.write(buffer, &zero)?;
    let grid = [blocks, 1, 1];
    let params = &buffer.to_le_bytes();
    let launched = Launch {
        entry: "k",
        grid,
        block: [64, 1, 1],
        shared_bytes: 256,
        params,
        ..Launch::default()
    };
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
    for shape in ["9, 1, 1", "4, 3, 1", "0, 1, 1", "65536, 65536, 2"] {
        let error = Module::parse(&rotate().replace("4, 1, 1", shape)).unwrap_err().to_string();
        assert!(error.contains("expected 1 to 8 blocks"), "{error}");
    }
}

/// Every thread writes the special registers of its block's cluster.
const PLACES: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 buffer) DIRECTIVE
{
    .reg .b32 %r<20>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %nctaid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2;
    mad.lo.u32 %r6, %r6, %r4, %r1;
    mul.wide.u32 %rd2, %r6, 64;
    add.s64 %rd3, %rd1, %rd2;
    mov.pred %p, %is_explicit_cluster;
    selp.u32 %r7, 1, 0, %p;
    st.global.u32 [%rd3], %r7;
    mov.u32 %r8, %cluster_ctarank;
    st.global.u32 [%rd3+4], %r8;
    mov.u32 %r8, %cluster_nctarank;
    st.global.u32 [%rd3+8], %r8;
    mov.u32 %r8, %cluster_ctaid.x;
    st.global.u32 [%rd3+12], %r8;
    mov.u32 %r8, %cluster_ctaid.y;
    st.global.u32 [%rd3+16], %r8;
    mov.u32 %r8, %cluster_ctaid.z;
    st.global.u32 [%rd3+20], %r8;
    mov.u32 %r8, %clusterid.x;
    st.global.u32 [%rd3+24], %r8;
    mov.u32 %r8, %clusterid.y;
    st.global.u32 [%rd3+28], %r8;
    mov.u32 %r8, %clusterid.z;
    st.global.u32 [%rd3+32], %r8;
    mov.u32 %r8, %nclusterid.y;
    st.global.u32 [%rd3+36], %r8;
    mov.u32 %r8, %cluster_nctaid.y;
    st.global.u32 [%rd3+40], %r8;
    ret;
}
";

/// Sixteen words of each block of a grid of one thread a block.
fn places(
    directive: &str,
    grid: [u32; 3],
    cluster: Option<[u32; 3]>,
) -> Result<Vec<Vec<u32>>, Error> {
    let module = Module::parse(&PLACES.replace("DIRECTIVE", directive))?;
    let memory = Memory::new();
    let bytes = 64 * grid.iter().product::<u32>() as usize;
    let buffer = memory.alloc(bytes as u64);
    let params = &buffer.to_le_bytes();
    let block = [1, 1, 1];
    launch(
        &module,
        &memory,
        Launch { entry: "k", grid, block, shared_bytes: 0, params, cluster, ..Launch::default() },
    )?;
    let mut back = vec![0; bytes];
    memory.read(buffer, &mut back)?;
    Ok(words(&back).chunks(16).map(<[u32]>::to_vec).collect())
}

#[test]
fn a_launch_chooses_its_clusters() {
    let (grid, shape) = ([4, 6, 2], [2, 3, 1]);
    for (directive, cluster) in [
        ("", Some(shape)),
        (".reqnctapercluster 2, 3, 1", None),
        (".maxclusterrank 6", Some(shape)),
    ] {
        let mut found = places(directive, grid, cluster).unwrap().into_iter();
        for z in 0..2 {
            for y in 0..6 {
                for x in 0..4 {
                    let rank = y % 3 * 2 + x % 2;
                    let expected = [1, rank, 6, x % 2, y % 3, 0, x / 2, y / 3, z, 2, 3];
                    assert_eq!(found.next().unwrap()[..11], expected, "{directive} {x} {y} {z}");
                }
            }
        }
    }
    let alone = places("", [2, 1, 1], None).unwrap();
    assert_eq!(alone[1][..11], [0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1]);
    for (directive, cluster, reason) in [
        (".reqnctapercluster 2", Some([4, 1, 1]), "was built for [2, 1, 1]"),
        (".maxclusterrank 4", Some(shape), "was built for 4 at most"),
        (".explicitcluster", None, "must be launched with clusters"),
        ("", Some([1, 4, 1]), "6 blocks along y, expected a multiple of 4"),
        ("", Some([4, 3, 1]), "expected 1 to 8 blocks (up to 16 are not portable)"),
        ("", Some([0, 1, 1]), "expected 1 to 8 blocks"),
    ] {
        let error = places(directive, grid, cluster).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Shared memory of the other blocks is reached in clusters that the launch chooses, along y too.
#[test]
fn blocks_of_chosen_clusters_read_each_other() {
    let ptx = rotate().replace(".reqnctapercluster 4, 1, 1", "").replace("%ctaid.x", "%ctaid.y");
    let module = Module::parse(&ptx).unwrap();
    let memory = Memory::new();
    let buffer = memory.alloc(8 * 64 * 4);
    let params = &buffer.to_le_bytes();
    let (grid, block, cluster) = ([1, 8, 1], [64, 1, 1], Some([1, 4, 1]));
    let launched =
        Launch { entry: "k", grid, block, shared_bytes: 256, params, cluster, ..Launch::default() };
    launch(&module, &memory, launched).unwrap();
    let mut back = vec![0; 8 * 64 * 4];
    memory.read(buffer, &mut back).unwrap();
    for (index, &word) in words(&back).iter().enumerate() {
        let (block, thread) = (index / 64, index % 64);
        assert_eq!(word as usize, 64 * (block / 4 * 4 + (block + 1) % 4) + thread);
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
    launch(
        &module,
        &memory,
        Launch { entry: "k", grid, block, shared_bytes: 0, params, ..Launch::default() },
    )
    .unwrap();
    let mut back = vec![0; 4 * count as usize];
    memory.read(buffer, &mut back).unwrap();
    words(&back)
}

#[test]
fn stores_atomics_and_copies_reach_other_blocks() {
    let other = |i: u32| ((i / 32) ^ 1) * 32 + i % 32;
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
