//! The counts that a report gives, on a kernel whose behaviour is known: a 32 x 32 transpose.

mod common;

use common::{bytes, kernel, run, words};
use ptx_sim::Class;

/// One warp writes rows of a tile of words to shared memory and reads columns; rows are `pitch` words
/// apart. The kernel of docs/simulator.md.
fn transpose(pitch: u32) -> String {
    kernel(
        "sm_80",
        ".extern .shared .align 16 .b8 tile[];",
        &format!(
            "
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    mad.lo.u32 %r3, %r1, 4, %r2;
    mov.u32 %r4, 0;
WRITE:
    ld.global.u32 %r5, [%rd3];
    st.shared.u32 [%r3], %r5;
    add.u64 %rd3, %rd3, 128;
    add.u32 %r3, %r3, {row};
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 32;
    @%p1 bra WRITE;
    bar.sync 0;
    mad.lo.u32 %r6, %r1, {row}, %r2;
    add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r4, 0;
READ:
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd3], %r7;
    add.u64 %rd3, %rd3, 128;
    add.u32 %r6, %r6, 4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 32;
    @%p1 bra READ;
    ret;",
            row = 4 * pitch
        ),
    )
}

#[test]
fn padding_takes_the_bank_conflicts_out_of_a_transpose() {
    let input: Vec<u32> = (0..1024).map(|i| i * 17).collect();
    let transposed: Vec<u32> = (0..1024).map(|i| input[i % 32 * 32 + i / 32]).collect();
    for (pitch, factor) in [(32, 32), (33, 1), (36, 4)] {
        let (back, report) = run(&transpose(pitch), 32, 4 * 32 * pitch, &bytes(&input)).unwrap();
        assert_eq!(words(&back), transposed);
        let loads = report.class(Class::SharedLoad);
        assert_eq!((loads.warps, loads.ideal_wavefronts), (32, 32));
        assert_eq!(loads.wavefronts, 32 * factor, "pitch {pitch}");
        let stores = report.class(Class::SharedStore);
        assert_eq!((stores.wavefronts, stores.ideal_wavefronts), (32, 32));
        let conflicts: Vec<&str> = report.bank_conflicts().map(|s| &*s.opcode).collect();
        assert_eq!(conflicts, if factor > 1 { vec!["ld.shared.u32"] } else { vec![] });
        assert_eq!(report.total().sectors, 2 * 32 * 4);
        assert_eq!(report.uncoalesced().count(), 0);
        assert_eq!(report.total().divergent, 0);
    }
}

#[test]
fn the_text_names_the_line_of_a_conflict() {
    let ptx = transpose(32);
    let (_, report) = run(&ptx, 32, 4096, &[0; 4096]).unwrap();
    let line = 1 + ptx.lines().position(|l| l.contains("ld.shared")).unwrap();
    let expected =
        format!("line {line:>5}: 1024 wavefronts, ideal 32 (32.00 x): ld.shared.u32 %r7, [%r6]");
    let text = report.to_string();
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn json_holds_the_same_counts() {
    let (_, report) = run(&transpose(32), 32, 4096, &[0; 4096]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["kernels"][0], "k");
    assert_eq!(json["total"]["wavefronts"], report.total().wavefronts);
    assert_eq!(json["classes"]["shared_load"]["wavefronts"], 1024);
    assert_eq!(json["sites"].as_array().unwrap().len(), report.sites.len());
}

#[test]
fn reports_merge() {
    let (_, one) = run(&transpose(32), 32, 4096, &[0; 4096]).unwrap();
    let mut both = one.clone();
    both.merge(&one);
    assert_eq!((both.launches, both.blocks), (2, 2));
    assert_eq!(both.sites.len(), one.sites.len());
    assert_eq!(both.total().lanes, 2 * one.total().lanes);
    assert_eq!(both.opcodes()["ld.shared.u32"].warps, 64);
}

#[test]
fn divergence_is_counted_where_lanes_part() {
    let ptx = kernel(
        "sm_80",
        "",
        "
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [buffer];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r2, 0;
AGAIN:
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r1;
    @%p1 bra AGAIN;
    st.global.u32 [%rd3], %r2;
    ret;",
    );
    let (back, report) = run(&ptx, 32, 0, &[0; 128]).unwrap();
    assert_eq!(words(&back), (1..=32).collect::<Vec<_>>());
    // Lane l leaves after l + 1 rounds; the last goes alone. All meet again before the store.
    assert_eq!(report.total().divergent, 31);
    let store = report.class(Class::GlobalStore);
    assert_eq!((store.warps, store.lanes, store.sectors), (1, 32, 4));
    let add = report.sum(|s| &*s.text == "add.u32 %r2, %r2, 1");
    assert_eq!((add.warps, add.lanes), (32, 32 * 33 / 2));
}

#[test]
fn integer_sums_that_wrap_are_told() {
    let ptx = kernel(
        "sm_80",
        "",
        "
    .reg .b32 %r<12>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [buffer];
    ld.global.u32 %r1, [%rd1];
    mov.u32 %r2, 0x01010101;
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r4, %r5, %r6, %r7}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, \
     {%r1, %r1, %r1, %r1};
    st.global.u32 [%rd1+4], %r4;
    ret;",
    );
    for (first, times) in [(i32::MAX - 32, 0), (i32::MAX - 31, 128), (i32::MIN, 0)] {
        let (back, report) = run(&ptx, 32, 0, &bytes(&[first as u32, 0])).unwrap();
        assert_eq!(words(&back)[1], (first as u32).wrapping_add(32));
        assert_eq!(report.total().overflows, times, "{first}");
        let told = format!("{times} sums on line");
        assert_eq!(report.to_string().contains(&told), times > 0, "{report}");
    }
}
