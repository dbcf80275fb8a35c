//! Text that compilers write beside instructions - lines and sections for debuggers, vectors, numbers of every form - is
//! read, or passed over; and what memory cannot hold is an error of the launch.

mod common;

use common::{bytes, kernel, run, words};
use ptx_sim::{Error, Module};

#[test]
fn variables_hold_their_numbers() {
    let variables = ".global .align 16 .v4 .f32 floats = {-1.0, 2.5, 0f3f800000, -0f3f800000};
        .global .v2 .u16 halves = {7, 65535};
        .global .f64 doubles[2] = {-0.5, 0dbff8000000000000};
        .const .s32 table[2][2] = {{1, -2}, {3}};
        .global .u64 place = generic(table) + 4;
        .global .attribute(.managed) .b32 managed = 0x1F;";
    let body = ".reg .b64 %d<4>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .f64 %g<3>;
        ld.param.u64 %d0, [buffer];
        ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [floats];
        st.global.v4.f32 [%d0], {%f0, %f1, %f2, %f3};
        ld.global.u32 %r0, [halves];
        st.global.u32 [%d0+16], %r0;
        ld.global.f64 %g0, [doubles];
        ld.global.f64 %g1, [doubles+8];
        add.f64 %g0, %g0, -1.5;
        mul.f64 %g1, %g1, 0d4000000000000000;
        st.global.f64 [%d0+24], %g0;
        st.global.f64 [%d0+32], %g1;
        ld.const.u32 %r1, [table+8];
        ld.const.u32 %r2, [table+12];
        st.global.v2.u32 [%d0+40], {%r1, %r2};
        ld.global.u64 %d1, [place];
        ld.s32 %r3, [%d1];
        st.global.u32 [%d0+48], %r3;
        ld.global.u32 %r4, [managed];
        st.global.u32 [%d0+52], %r4;
        mul.f32 %f4, %f0, -0f40000000;
        st.global.f32 [%d0+56], %f4;
        ret;";
    let (back, _) = run(&kernel("sm_80", variables, body), 1, 0, &[0; 60]).unwrap();
    let double = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
    let mut expected: Vec<u32> = [-1.0_f32, 2.5, 1.0, -1.0].map(f32::to_bits).to_vec();
    expected.extend([7 | 65535 << 16, 0]);
    expected.extend(double(-2.0));
    expected.extend(double(-3.0));
    expected.extend([3, 0, -2_i32 as u32, 0x1f, 2.0_f32.to_bits()]);
    assert_eq!(words(&back), expected);
}

/// Expected: the initialisers that `ptxas` 13.0 puts into the cubin.
#[test]
fn rows_of_initialisers_follow_each_other() {
    for (variable, expected) in [
        ("v[2][3] = {{1}, {2, 3}}", &[1, 2, 3, 0, 0, 0][..]),
        ("v[2][3] = {{1, 2, 3}, {4, 5}}", &[1, 2, 3, 4, 5, 0]),
        ("v[2][2][2] = {{{1}, {2}}, {{3, 4}}}", &[1, 2, 3, 4, 0, 0, 0, 0]),
        ("v[2][3] = {}", &[0; 6]),
        ("v[] = {1, 2, 3}", &[1, 2, 3]),
        ("v[][2] = {{1}, {2}, {3}}", &[1, 2, 3, 0, 0, 0]),
    ] {
        let variables = format!(".global .b32 {variable};");
        let mut body = ".reg .b64 %d<3>;\n.reg .b32 %r0;\nld.param.u64 %d0, [buffer];\n".to_owned();
        for at in (0..4 * expected.len()).step_by(4) {
            body += &format!("ld.global.u32 %r0, [v+{at}];\nst.global.u32 [%d0+{at}], %r0;\n");
        }
        let (back, _) =
            run(&kernel("sm_80", &variables, &(body + "ret;")), 1, 0, &vec![9; 4 * expected.len()])
                .unwrap();
        assert_eq!(words(&back), expected, "{variable}");
    }
    for (variable, said) in [
        ("v[2][2] = {1, 2}", "expected `{`, found `1`"),
        ("v[2] = {1, 2, 3}", "expected at most 2 values in these braces, found `3`"),
        ("v[2][2] = {{1}, {2}, {3}}", "expected at most 2 values in these braces, found `{`"),
        ("v[2] = {{1}, {2}}", "expected a value, found `{`"),
        ("v = {1}", "expected a value, found `{`"),
        ("v[2] = 1", "expected `{`, found `1`"),
    ] {
        let error = Module::parse(&kernel("sm_80", &format!(".global .b32 {variable};"), "ret;"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(said), "{variable}: {error}");
    }
    let text = kernel("sm_80", ".global .v2 .b32 v[2] = {{1, 2}, {3}};", "ret;");
    let error = Module::parse(&text).unwrap_err().to_string();
    assert!(error.contains("expected 2 values in these braces, found `}`"), "{error}");
}

#[test]
fn what_is_for_debuggers_is_passed_over() {
    let text = ".version 8.3\n.target sm_90a, debug\n.address_size 64
        .file 1 \"kernel.rs\"\n.pragma \"nounroll\";
        .section .debug_abbrev { .b8 1, 2; { .b8 3; } }
        .visible .entry k(.param .u64 .ptr .global .align 8 buffer) {
        .reg .b64 %d0;\n.reg .b32 %r0;
        .loc 1 7 3
        ld.param.u64 %d0, [buffer];
        prefetch.global.L2 [%d0];
        prefetchu.L1 [%d0];
        ld.global.u32 %r0, [%d0];\n.loc 1 8 3\nadd.u32 %r0, %r0, 1;
        proto: .callprototype _ ();
        st.global.u32 [%d0], %r0;\nret;\n}";
    assert_eq!(Module::parse(text).unwrap().target(), "sm_90a,debug");
    let (back, _) = run(text, 1, 0, &bytes(&[41])).unwrap();
    assert_eq!(words(&back), [42]);
}

#[test]
fn what_cannot_be_placed_is_an_error_of_the_launch() {
    for (variables, said) in [
        (
            ".global .b8 large[4294967297];",
            "variable large of 4294967297 bytes: at most 4294967296",
        ),
        (
            ".global .u64 place = nobody;",
            "the initialiser of place names nobody, which is no variable",
        ),
    ] {
        match run(&kernel("sm_80", variables, "ret;"), 1, 0, &[0; 4]) {
            Err(Error::Memory(text)) => assert!(text.contains(said), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
