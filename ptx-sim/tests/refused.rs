//! Text that is not modelled, or no instruction at all, is refused by a sentence that says why.

use ptx_sim::Module;

/// Reason for which a kernel with some instructions, after some declarations, is refused.
fn refusal(before: &str, instructions: &str) -> String {
    let text = format!(
        ".version 8.5\n.target sm_90a\n.address_size 64\n{before}\n.visible .entry k(.param .u64 p)\n{{
        .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<99>;\n.reg .b64 %d<9>;\n.reg .f32 %f<99>;\n.reg .f64 %g<9>;
        .shared .align 16 .b8 mem[1024];\n{instructions}\nret;\n}}\n"
    );
    match Module::parse(&text) {
        Ok(module) => match module.refused().next() {
            Some((_, error)) => error.to_string(),
            None => panic!("taken: {instructions}"),
        },
        Err(error) => error.to_string(),
    }
}

/// Checks instructions and what they are refused for.
fn check(table: &[(&str, &str)]) {
    for (instructions, reason) in table {
        let said = refusal("", instructions);
        assert!(said.contains(reason), "{instructions} {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn comparisons_and_selections() {
    check(&[
        ("setp.xx.s32 %p0, %r0, %r1;", "no comparison"),
        ("setp.num.s32 %p0, %r0, %r1;", "unknown comparison `num`"),
        ("setp.lo.f32 %p0, %f0, %f1;", "unknown comparison `lo`"),
        ("setp.eq.s32 %p0, %r0;", "operands do not fit"),
        ("setp.eq.and.s32 %p0, %r0, %r1;", "operands do not fit"),
        ("set.eq.f64.s32 %g0, %r0, %r1;", "`set` of type F64 is not modelled"),
        ("selp.b128 %r0, %r1, %r2, %p0;", "`selp` of type B128 is not modelled"),
        ("selp.b32 %r0, %r1, %p0;", "expected 4 operands, found 3"),
        ("slct.b32.f32 %r0, %r1, %r2, %f0;", "`slct` of type F32 is not modelled"),
        ("testp.f32 %p0, %f0;", "no test"),
        ("testp.finite.f64 %p0, %g0;", "`testp` of type F64 is not modelled"),
    ]);
}

#[test]
fn conversions_and_moves() {
    check(&[
        ("cvt.pack.sat.b9.s32 %r0, %r1, %r2;", "no type to pack"),
        ("cvt.pack.sat.u8.u32 %r0, %r1, %r2;", "cvt.pack reads .s32"),
        ("cvt.pack.sat.u8.s32 %r0, %r1, %r2, %r3;", "cvt.pack with three sources ends in .b32"),
        ("cvt.rna.tf32.f32 %r0, %f0;", "cvt to tf32 is not modelled"),
        ("cvt.rz.f16x2.f32 %r0, %f0, %f1;", "only .rn is modelled for packed halves"),
        ("cvt.rn.bf16.s32 %h0, %r0;", "`cvt` of type Bf16 is not modelled"),
        ("cvt.s32.f32 %r0, %f0;", "an integer rounding (.rzi, .rni, ...) is needed"),
        ("cvt.rzi.s32.f16x2 %r0, %r1;", "is not modelled"),
        ("cvt.rz.sat.f32.f64 %f0, %g0;", "only .rn is modelled with .sat"),
        ("add.rz.f16 %h0, %h1, %h2;", "`add` of type F16 is not modelled"),
        ("cvt.u32.u32 %r0;", "expected 2 operands, found 1"),
        ("cvt.u64.u64 %d0, %r0;", "the register is too small for U64"),
        ("mov.b32 %r0;", "expected 2 operands, found 1"),
        ("mov.b64 {%r0, %r1, %r2}, %d0;", "B64 does not split into 3 parts"),
        ("mov.b64 %d0, {%r0};", "B64 does not split into 1 parts"),
        ("mov.b32 %d0, {%h0, %h1};", "the register does not fit its parts"),
        ("mov.b32 {%h0, %h1}, %p0;", "a predicate has no parts"),
        ("mov.b128 %r0, %r1;", "128-bit registers are not modelled"),
        ("cvta.shared.u32 %r0, %r1;", "`cvta` of type U32 is not modelled"),
        ("cvta.u64 %d0, %d1;", "cvta names no space"),
        ("isspacep %p0, %d0;", "no space"),
    ]);
}

#[test]
fn arithmetic_and_logic() {
    check(&[
        ("add.f16.sat %h0, %h1;", "expected 3 operands, found 2"),
        ("add.sat.f16 %h0, %h1, %h2;", "`sat` of type F16 is not modelled"),
        ("div.s16x2 %r0, %r1, %r2;", "no type modifier"),
        ("sin.f64 %g0, %g1;", "`sin` of type F64 is not modelled"),
        ("rem.f32 %f0, %f1, %f2;", "`rem` of type F32 is not modelled"),
        ("copysign.s32 %r0, %r1, %r2;", "`copysign` of type S32 is not modelled"),
        ("add.b128 %r0, %r1, %r2;", "B128 is not an integer type"),
        ("addc.u32 %r0, %r1;", "operands do not fit"),
        ("prmt.b32.f4e %r0, %r1, %r2, %r3;", "prmt modes need a literal selector here"),
        ("shf.b32 %r0, %r1, %r2, %r3;", "expected .l or .r and .wrap or .clamp"),
        ("bmsk.b32 %r0, %r1, %r2;", "expected .clamp or .wrap"),
        ("dp4a.u64.u64 %r0, %r1, %r2, %r3;", "expected .u32 or .s32 twice"),
        ("dp4a.lo.u32.u32 %r0, %r1, %r2, %r3;", "dp2a needs .lo or .hi, dp4a has neither"),
        ("dp2a.u32.u32 %r0, %r1, %r2, %r3;", "dp2a needs .lo or .hi, dp4a has neither"),
        ("add.s32.rn %r0, %r1, %r2;", "unknown modifier `.rn`"),
        ("frobnicate.b32 %r0;", "unknown instruction `frobnicate`"),
    ]);
}

#[test]
fn memory() {
    check(&[
        ("ld.global.b128 %r0, [%d0];", "B128 in memory is not modelled"),
        ("ld.global.u32 %r0;", "expected 2 operands, found 1"),
        ("ld.global.v2.u32 %r0, [%d0];", "expected 2 destinations, found 1"),
        ("st.async.u32 [%d0], %r0;", "st.async is not modelled"),
        ("st.global.u32 [%d0];", "expected 2 operands, found 1"),
        ("st.global.v2.u32 [%d0], {%r0, %r1, %r2};", "expected 2 values, found 3"),
        ("atom.global.u32 %r0, [%d0], %r1;", "no operation"),
        ("atom.global.min.f32 %f0, [%d0], %f1;", "Min on F32 is not modelled"),
        ("atom.global.add.u32;", "no operands"),
        ("atom.global.cas.b32 %r0, [%d0], %r1;", "operands do not fit"),
        ("red.global.add.u32 [%d0], %r0, %r1;", "operands do not fit"),
        ("fence.proxy.other;", "unknown proxy"),
        ("ld.global.u32 %r0, {%r1};", "is not an address"),
        ("ld.global.u32 %r0, [%p0];", "`%p0` cannot hold an address"),
        ("ld.global.u32 7, [%d0];", "is not a register"),
        ("add.u32 %r0, %r1, {%r2};", "is not a source operand"),
        ("add.u32 %r0, %r1, %d0;", "does not fit the type U32"),
        ("add.u32 %d0, %r1, %r2;", "does not fit the type U32"),
        ("add.u32 %r0, %r1, !%r2;", "`%r2` is not a predicate"),
        ("add.u32 %r0, %r1, nothing;", "no register or variable `nothing` in scope"),
        ("add.u32 %x0, %r1, %r2;", "no register `%x0` in scope"),
    ]);
}

#[test]
fn warps_and_barriers() {
    check(&[
        ("shfl.up.b32 %r0, %r1, %r2, %r3, %r4;", "expected .sync"),
        ("shfl.sync.b32 %r0, %r1, %r2, %r3, %r4;", "no mode"),
        ("shfl.sync.up.b32 %r0, %r1;", "operands do not fit"),
        ("vote.sync.pred %p0, %p1, %r0;", "no mode"),
        ("vote.sync.all.pred %p0, %p1;", "operands do not fit"),
        ("match.sync.b32 %r0, %r1, %r2;", "expected .any or .all"),
        ("match.any.sync.b32 %r0, %r1;", "operands do not fit"),
        ("redux.sync.u32 %r0, %r1, %r2;", "no operation"),
        ("redux.sync.add.u32 %r0, %r1;", "operands do not fit"),
        ("activemask.b32 %r0, %r1;", "operands do not fit"),
        ("elect.sync %r0, %r1;", "operands do not fit"),
        ("setmaxnreg.sync.aligned.u32 40;", "expected .inc or .dec"),
        ("setmaxnreg.inc.sync.aligned.u32 %r0;", "operands do not fit"),
        (
            "setmaxnreg.inc.sync.aligned.u32 41;",
            "41 registers: expected a multiple of 8 in 24..=256",
        ),
        ("bar.warp.sync;", "expected a member mask"),
        ("barrier.cluster.aligned;", "expected .arrive or .wait"),
        ("bar.red.xor.pred %p0, 0, %p1;", "expected .popc, .and or .or"),
        ("bar.cta;", "expected .sync, .arrive or .red"),
        ("bar.red.and.pred %p0;", "operands do not fit"),
        ("bar.sync 0, 32, 64;", "operands do not fit"),
        ("bar.arrive 0;", "an arrive needs a thread count"),
    ]);
}

#[test]
fn asynchronous_copies() {
    check(&[
        ("cp.bulk.wait_group 0;", "expected .async"),
        ("cp.async.wait_group %r0;", "expected a count"),
        ("cp.async.mbarrier.arrive.b64;", "expected an address"),
        ("cp.async.shared.global [%d0], [%d1], 16;", "expected .ca or .cg"),
        ("cp.async.ca.global.shared [%d0], [%d1], 16;", "expected .shared.global"),
        ("cp.async.ca.shared.global [%d0], [%d1];", "operands do not fit"),
        ("cp.async.ca.shared.global [mem], [%d1], 5;", "5 bytes: expected 4, 8 or 16"),
        ("cp.async.cg.shared.global [mem], [%d1], 8;", "8 bytes: expected 4, 8 or 16"),
        ("cp.async.ca.shared.global [mem], [%d1], 16, %d0;", "the source size is a 32-bit value"),
        ("cp.async.ca.shared.global [mem], [%d1], 16, %r0, %r1;", "operands do not fit"),
        ("cp.async.bulk.wait_group %r0;", "expected a count"),
        ("cp.async.bulk.prefetch.L2.global [%d0], 16;", "cp.async.bulk.prefetch is not modelled"),
        (
            "cp.async.bulk.multicast::cluster.shared.global [mem], [%d0], 16, [mem];",
            "expected .mbarrier::complete_tx::bytes or .bulk_group",
        ),
        ("cp.async.bulk.tensor.6d.shared.global [mem], [%d0], [mem];", "expected .1d to .5d"),
        (
            "cp.async.bulk.global.global [%d0], [%d1], 16;",
            "expected .shared.global or .global.shared",
        ),
        (
            "cp.async.bulk.shared.global [mem], [%d0], 16;",
            "expected .mbarrier::complete_tx::bytes or .bulk_group",
        ),
        (
            "cp.async.bulk.shared.global.bulk_group [mem], [%d0], 16;",
            "copies to shared complete through an mbarrier",
        ),
        (
            "cp.reduce.async.bulk.tensor.1d.global.shared.bulk_group.add [%d0], [mem];",
            "cp.reduce.async.bulk.tensor is not modelled",
        ),
        (
            "cp.reduce.async.bulk.global.shared.bulk_group.add.f16 [%d0], [mem], 16;",
            "a reduction of F16 is not modelled",
        ),
        ("cp.reduce.async.bulk.global.shared.bulk_group.u32 [%d0], [mem], 16;", "no operation"),
        ("cp.async.bulk.global.shared.bulk_group [%d0];", "operands do not fit"),
        ("cp.async.bulk.global.shared.bulk_group [%d0], [mem];", "the size is missing"),
        ("cp.async.bulk.global.shared.bulk_group [%d0], [mem], 16, 17;", "operands do not fit"),
        (
            "cp.async.bulk.tensor.2d.shared.global.mbarrier::complete_tx::bytes [mem], [%d0, {%r0}], [mem];",
            "the coordinates do not fit the dimensions",
        ),
        ("mbarrier.init.shared [mem], 1;", "expected .b64"),
        ("mbarrier.arrive.noComplete.shared.b64 %d0, [mem], 1;", "unknown modifier `.noComplete`"),
        ("mbarrier.pending_count.b64 %r0;", "operands do not fit"),
        ("mbarrier.init.shared.b64 [mem];", "operands do not fit"),
        ("mbarrier.inval.shared.b64 [mem], 1;", "operands do not fit"),
        ("mbarrier.arrive.shared.b64 %d0;", "operands do not fit"),
        ("mbarrier.arrive.shared.b64 %d0, [mem], 1, 2;", "operands do not fit"),
        ("mbarrier.arrive.expect_tx.shared.b64 %d0, [mem];", "operands do not fit"),
        ("mbarrier.expect_tx.shared.b64 [mem];", "operands do not fit"),
        ("mbarrier.test_wait.shared.b64 %p0, [mem], %d0, 7;", "operands do not fit"),
        ("mbarrier.shared.b64 [mem];", "unknown operation on an mbarrier"),
    ]);
}

#[test]
fn tensor_cores() {
    check(&[
        ("ldmatrix.sync.m8n8.x1.shared.b16 {%r0}, [mem];", "expected .aligned"),
        (
            "ldmatrix.sync.aligned.m16n16.x1.shared.b16 {%r0}, [mem];",
            "only the shape m8n8 is modelled",
        ),
        ("ldmatrix.sync.aligned.m8n8.shared.b16 {%r0}, [mem];", "expected .x1, .x2 or .x4"),
        ("ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [mem];", "expected .shared"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r0}, [mem];", "expected .b16"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0};", "expected 2 operands, found 1"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [mem];", "expected 2 registers, found 1"),
        ("mma.sync.aligned.row.col.s32.s8.s8.s32 {%r0};", "no shape"),
        ("mma.sync.aligned.m16n8k32.col.row.s32.s8.s8.s32 {%r0};", "only .row.col is modelled"),
        ("mma.sync.aligned.m16n8k32.row.col.b8.s8.s8.s32 {%r0};", "no type of C"),
        ("mma.sync.aligned.m16n8k32.row.col;", "no accumulator type"),
        ("mma.sync.aligned.m16n8k32.row.col.s32;", "no type of A"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8;", "no type of B"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8;", "no type of C"),
        (
            "mma.sync.aligned.m16n8k16.row.col.s32.s4.s4.s32 {%r0};",
            "m16n8k16 with S4, S4 into S32 is not modelled",
        ),
        (
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32 {%r0};",
            "b1 needs .and.popc or .xor.popc",
        ),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor {%r0};", "expected .popc"),
        (
            "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {%f0};",
            "unknown modifier `.satfinite`",
        ),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0};", "expected 4 operands, found 1"),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0}, {%r1}, {%r2}, {%r3};",
            "A needs 4 registers, found 1",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r0}, {%r1, %r2}, {%r3}, {%r4, %r5, %r6, %r7};",
            "D needs 4 registers, found 1",
        ),
        ("wgmma.wait_group.sync.aligned %r0;", "expected a count"),
        ("wgmma.other.sync.aligned;", "expected .mma_async, .fence, .commit_group or .wait_group"),
    ]);
}

#[test]
fn control_and_calls() {
    check(&[
        ("@%r0 ret;", "`%r0` is not a predicate"),
        ("bra nowhere;", "no label `nowhere` in scope"),
        ("bra 7;", "operands do not fit"),
        ("brx.idx %r0, nothing;", "no branch targets named `nothing`"),
        ("call nobody;", "function `nobody` has no body in this module"),
        ("call (%r0), %d0, (%r1), proto;", "indirect calls are not modelled"),
        (".shared .b8 big[600000];", "at most 524288 fit"),
    ]);
    let callee = ".func (.param .b32 out) f(.param .b32 in) { ret; }\n.func g() { call g; ret; }";
    for (instructions, reason) in [
        ("call f;", "`f` takes 1 arguments and returns 1, the call has 0 and 0"),
        ("call (%r0), f, (7);", "no register or variable"),
        ("call g;", "calls nest deeper than 32: recursion is not modelled"),
    ] {
        let said = refusal(callee, instructions);
        assert!(said.contains(reason), "{instructions} {said}");
    }
}

#[test]
fn declarations_and_words() {
    for (before, reason) in [
        ("nothing", "expected a directive, found `nothing`"),
        (".target", "expected a name"),
        (".pragma \"x\"", "expected `;`, found the end of the text"),
        (".section .debug {", "expected `}`, found the end of the text"),
        (".visible .b32 x;", "expected a state space, `.entry` or `.func`"),
        (".global .align 3 .b32 x;", "expected an alignment: a power of two up to 65536"),
        (".global x;", "expected a type"),
        (".global .blue x;", "expected a type"),
        (".global .b32 .blue x;", "expected a name"),
        (".global .b8 x[99999999999999];", "expected at most 1099511627776 elements"),
        (".global .b32 x[2] = {1 2};", "expected `,` or `}`"),
        (".global .b32 x = ;", "expected a value"),
        (".func f(.reg .b32 %a) { ret; }", "parameters in registers are not modelled"),
        (".func f(.param .b32 a .param .b32 b) { ret; }", "expected `,` or `)`"),
        (".entry f() .reqnctapercluster 2, 5 { ret; }", "[2, 5, 1] blocks, expected 1 to"),
        (".entry f() .reqnctapercluster 4294967298 { ret; }", "expected 1 to 8 blocks"),
        (".entry f() .blocksareclusters { ret; }", "counted in clusters are not modelled"),
        (".entry f() .blue { ret; }", "expected a performance directive or a function body"),
        (".func f() { .reg .blue %x; }", "expected a register type"),
        (".func f() { .reg .b32 %x<9999999>; }", "expected at most 1048576 registers"),
        (".func f() { mov.b32 %a %b; }", "expected `,` or `;`"),
        (".func f() { mov.b32 -%a; }", "expected a number"),
        (".func f() { mov.b32 ; ; mov.b32 ]; }", "expected an operand"),
        (".func f() { ld.b32 [}]; }", "expected an address"),
        (".func f() { ld.b32 {%a %b}; }", "expected `,` or `}`"),
        (".func f() { ret; ", "expected"),
        ("/* no end", "a comment that never ends"),
        (".file 1 \"no end", "a string that never ends"),
        (".global .b32 x = 0xzz;", "`0xzz` is not a number"),
        (".global .b32 x = 0F12;\n\u{7f}", "unexpected byte 0x7f in the text"),
    ] {
        let said = Module::parse(before).expect_err(before).to_string();
        assert!(said.contains(reason), "{before}: {said}");
    }
    let huge = ".entry f(.param .b8 a[40000]) { ret; }";
    assert!(refusal(huge, "").contains("more than 32764 bytes of parameters"));
    assert!(refusal(".entry f();", "bra nowhere;").contains("no label"));
}
