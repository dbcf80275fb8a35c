//! Speed of the simulator on a kernel with the instruction mix of a tensor-core correlator.
//!
//! `cargo test -p ptx-sim --release --test speed -- --ignored --nocapture`

mod common;

use std::time::{Duration, Instant};

use common::{bytes, kernel, words};
use ptx_sim::{Class, Launch, Memory, Module, launch};

const STEPS: u32 = 200;
const WARPS: u32 = 8;

/// Every warp multiplies, each step, 16 rows by 8 columns of 32 bytes four times, from panels that the
/// block copies with cp.async two steps ahead, and turns B for an imaginary part, as correlators do.
fn correlator() -> String {
    let chunk: String = (0..4)
        .map(|c| {
            format!(
                "
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%a0, %a1, %a2, %a3}}, [%row+{at}];
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%b0, %b1}}, [%column+{at}];
    prmt.b32 %t0, %b0, %b0, 0x2301;
    prmt.b32 %t1, %b1, %b1, 0x2301;
    xor.b32 %t0, %t0, 0x00ff00ff;
    xor.b32 %t1, %t1, 0x00ff00ff;
    dp4a.s32.s32 %sum, %a0, 0x00010001, %sum;
    dp4a.s32.s32 %sum, %a1, 0x00010001, %sum;
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{%r0, %r1, %r2, %r3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%r0, %r1, %r2, %r3}};
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{%i0, %i1, %i2, %i3}}, {{%a0, %a1, %a2, %a3}}, {{%t0, %t1}}, {{%i0, %i1, %i2, %i3}};",
                at = 32 * c
            )
        })
        .collect();
    // Rows of 128 bytes, 144 apart: 16-byte units of 8 rows fall into different banks.
    kernel(
        "sm_80",
        ".shared .align 16 .b8 panels[6912];",
        &format!(
            "
    .reg .b32 %a<4>, %b<2>, %t<2>, %r<4>, %i<4>, %sum, %row, %column, %stage, %to, %step, %x, %thread;
    .reg .b64 %in, %out, %at;
    .reg .pred %p, %more;
    ld.param.u64 %out, [buffer];
    mov.u32 %thread, %tid.x;
    mov.u32 %step, 0;
    mov.u32 %sum, 0;
    mov.u32 %stage, panels;
    mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;
    mov.u32 %i0, 0; mov.u32 %i1, 0; mov.u32 %i2, 0; mov.u32 %i3, 0;
    setp.lt.u32 %p, %thread, 192;
    shr.u32 %x, %thread, 3;
    mul.lo.u32 %to, %x, 144;
    and.b32 %x, %thread, 7;
    mad.lo.u32 %to, %x, 16, %to;
    add.u32 %to, %to, %stage;
    mul.wide.u32 %at, %thread, 16;
    add.u64 %in, %out, %at;
    @%p cp.async.cg.shared.global [%to], [%in], 16;
    cp.async.commit_group;
    mov.u32 %x, %laneid;
    and.b32 %row, %x, 15;
    mul.lo.u32 %row, %row, 144;
    shr.u32 %column, %x, 4;
    mad.lo.u32 %row, %column, 16, %row;
    add.u32 %row, %row, %stage;
    and.b32 %column, %x, 7;
    mad.lo.u32 %column, %column, 144, %stage;
    shr.u32 %x, %x, 3;
    and.b32 %x, %x, 1;
    mad.lo.u32 %column, %x, 16, %column;
    add.u32 %column, %column, 2304;
    mov.u32 %x, 3456;
LOOP:
    add.u32 %to, %to, %x;
    @%p cp.async.cg.shared.global [%to], [%in], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
{chunk}
    add.u32 %row, %row, %x;
    add.u32 %column, %column, %x;
    neg.s32 %x, %x;
    bar.sync 0;
    add.u32 %step, %step, 1;
    setp.lt.u32 %more, %step, {STEPS};
    @%more bra LOOP;
    cp.async.wait_all;
    add.u32 %i0, %i0, %sum;
    mov.u32 %x, %ctaid.x;
    mov.u32 %step, %ntid.x;
    mad.lo.u32 %x, %x, %step, %thread;
    mul.wide.u32 %at, %x, 16;
    add.u64 %out, %out, %at;
    add.u64 %out, %out, 4096;
    st.global.v4.u32 [%out], {{%r0, %r1, %i0, %i1}};
    ret;"
        ),
    )
}

/// Time that this thread has spent on a core; where the system does not tell, time on the clock.
fn spent() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let clock = START.get_or_init(Instant::now).elapsed();
    let system = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = system.and_then(|s| s.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or(clock, Duration::from_nanos)
}

#[test]
#[ignore = "a measurement: run it alone, in release"]
fn lane_instructions_per_second() {
    let ptx = correlator();
    let module = Module::parse(&ptx).unwrap();
    let memory = Memory::new();
    let blocks = 16;
    let buffer = memory.alloc(u64::from(4096 + blocks * WARPS * 32 * 16));
    let samples: Vec<u32> = (0..1024u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    memory.write(buffer, &bytes(&samples)).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut best = Duration::MAX;
    let mut lanes = 0;
    for _ in 0..5 {
        let (report, time) = pool.install(|| {
            let start = spent();
            let params = buffer.to_le_bytes();
            let grid = Launch {
                entry: "k",
                grid: [blocks, 1, 1],
                block: [32 * WARPS, 1, 1],
                shared_bytes: 0,
                params: &params,
                ..Launch::default()
            };
            let report = launch(&module, &memory, grid).unwrap();
            (report, spent() - start)
        });
        best = best.min(time);
        lanes = report.total().lanes;
        assert_eq!(report.class(Class::Tensor).warps, u64::from(blocks * WARPS * STEPS * 8));
        assert_eq!(report.bank_conflicts().count(), 0, "{report}");
    }
    // Lane 0 of every block: row 0 of the first panel with column 0 of the second, STEPS times.
    let mut back = vec![0; 4];
    memory.read(buffer + 4096, &mut back).unwrap();
    let sample = |at: usize| i32::from(samples[at / 4].to_le_bytes()[at % 4] as i8);
    let dot: i32 = (0..128).map(|k| sample(k) * sample(16 * 128 + k)).sum();
    assert_eq!(words(&back)[0], dot.wrapping_mul(STEPS as i32) as u32);
    let rate = lanes as f64 / best.as_secs_f64() / 1e6;
    println!("{rate:.1} million lane instructions per second on one core");
    assert!(rate >= 50.0, "{rate:.1} million lane instructions per second, expected 50 or more");
}
