//! `mma.sync` of `tf32`, against plain loops over the matrices that the PTX documentation's figures lay out.

mod common;

use common::{bytes, kernel, run, words};

const K: usize = 8;
const N: usize = 8;

/// Small integers, of which every product and sum is exact.
fn number(index: usize) -> f32 {
    (index * 7 % 23) as f32 - 11.0
}

#[test]
fn products_are_those_of_plain_loops() {
    let body = ".reg .b64 %d<3>;\n.reg .b32 %r<12>;\n.reg .f32 %f<5>;
        ld.param.u64 %d0, [buffer];
        mov.u32 %r0, %tid.x;
        mul.wide.u32 %d1, %r0, 48;
        add.s64 %d0, %d0, %d1;
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];
        ld.global.v2.u32 {%r5, %r6}, [%d0+16];
        ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d0+32];
        mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
        st.global.v4.f32 [%d0+32], {%f1, %f2, %f3, %f4};
        ret;";
    let a = |row: usize, k: usize| number(row * K + k);
    let b = |k: usize, column: usize| number(500 + k * N + column);
    let c = |row: usize, column: usize| number(900 + row * N + column);
    // Bits below those of tf32 are not read.
    let tf32 = |value: f32| value.to_bits() | 0x1fff;
    let mut given = Vec::new();
    let mut places = Vec::new();
    for lane in 0..32 {
        let (group, within) = (lane / 4, lane % 4);
        let of_a = [(0, 0), (8, 0), (0, 4), (8, 4)];
        given.extend(of_a.map(|(row, k)| tf32(a(group + row, within + k))));
        given.extend([0, 4].map(|k| tf32(b(within + k, group))));
        given.extend([0, 0]);
        let of_c = [(0, 0), (0, 1), (8, 0), (8, 1)];
        let of_c = of_c.map(|(row, column)| (group + row, 2 * within + column));
        given.extend(of_c.map(|(row, column)| c(row, column).to_bits()));
        places.push(of_c);
    }
    let (back, _) = run(&kernel("sm_80", "", body), 32, 0, &bytes(&given)).unwrap();
    for (found, places) in words(&back).chunks_exact(12).zip(places) {
        for (&found, (row, column)) in found[8..].iter().zip(places) {
            let products = (0..K).map(|k| a(row, k) * b(k, column)).sum::<f32>();
            assert_eq!(f32::from_bits(found), c(row, column) + products, "{row}, {column}");
        }
    }
}
