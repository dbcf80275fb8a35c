//! Sums of matrix units under `--tensor`, against the models in plain integer arithmetic.

mod common;

use common::{bytes, kernel, words};
use ptx_sim::{Error, Launch, Memory, Module, Tensor, launch};

/// Bits behind the point of the numbers below; all operands here are multiples of `2^-POINT`.
const POINT: i32 = 50;

/// Form of `mma.sync` with 16 rows and 8 columns.
#[derive(Clone, Copy)]
struct Form {
    k: usize,
    element: &'static str,
    /// Bits of an element, of its exponent, of its fraction.
    bits: [u32; 3],
    half: bool,
}

const F16: [u32; 3] = [16, 5, 10];
const BF16: [u32; 3] = [16, 8, 7];
/// The bits of tf32 that are read, at the top of a word.
const TF32: [u32; 3] = [19, 8, 10];
const F32: [u32; 3] = [32, 8, 23];

const FORMS: [Form; 7] = [
    Form { k: 16, element: "f16", bits: F16, half: false },
    Form { k: 8, element: "f16", bits: F16, half: false },
    Form { k: 16, element: "f16", bits: F16, half: true },
    Form { k: 8, element: "f16", bits: F16, half: true },
    Form { k: 16, element: "bf16", bits: BF16, half: false },
    Form { k: 8, element: "tf32", bits: TF32, half: false },
    Form { k: 4, element: "tf32", bits: TF32, half: false },
];

/// Sum of a row and a column, and D.
#[derive(Clone)]
struct Matrices {
    a: Vec<Vec<u32>>,
    /// By column.
    b: Vec<Vec<u32>>,
    c: Vec<Vec<u32>>,
}

impl Form {
    fn accumulator(self) -> [u32; 3] {
        if self.half { F16 } else { F32 }
    }

    /// Runs the instruction on one warp; D by row.
    fn run(self, tensor: Tensor, matrices: &Matrices) -> Result<Vec<Vec<u32>>, Error> {
        let wide = self.bits == TF32;
        let per_word = if wide { 1 } else { 2 };
        // Elements of a lane, in order: row and k of A, k of B, row and column of C.
        let steps = self.k / (4 * per_word);
        let of_a = |lane: usize| {
            (0..2 * steps).flat_map(move |r| {
                let (row, k) = (lane / 4 + 8 * (r % 2), per_word * (lane % 4 + 4 * (r / 2)));
                (0..per_word).map(move |e| (row, k + e))
            })
        };
        let of_b = |lane: usize| {
            (0..steps)
                .flat_map(move |r| (0..per_word).map(move |e| per_word * (lane % 4 + 4 * r) + e))
        };
        let of_c = |lane: usize| (0..4).map(move |i| (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2));
        let pack = |elements: Vec<u32>, wide: bool| -> Vec<u32> {
            if wide {
                return elements;
            }
            elements.chunks(2).map(|pair| pair[1] << 16 | pair[0]).collect()
        };
        let mut input = Vec::new();
        let mut counts = [0; 3];
        for lane in 0..32 {
            let tf32 = |value: u32| if wide { value << 13 } else { value };
            let a = pack(of_a(lane).map(|(row, k)| tf32(matrices.a[row][k])).collect(), wide);
            let b = pack(of_b(lane).map(|k| tf32(matrices.b[lane / 4][k])).collect(), wide);
            let c = of_c(lane).map(|(row, column)| matrices.c[row][column]).collect();
            let c = pack(c, !self.half);
            counts = [a.len(), b.len(), c.len()];
            input.extend(a.into_iter().chain(b).chain(c));
        }
        let stride = counts.iter().sum::<usize>();
        let [na, nb, nc] = counts;
        let list = |first: usize, count: usize| {
            let names: Vec<String> = (first..first + count).map(|i| format!("%r{i}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let mut body = format!(
            ".reg .b64 %d<3>;\n.reg .b32 %r<32>;\n.reg .b32 %t;\nld.param.u64 %d0, [buffer];
            mov.u32 %t, %tid.x;\nmul.wide.u32 %d1, %t, {};\nadd.s64 %d0, %d0, %d1;\n",
            4 * stride
        );
        for word in 0..stride {
            body += &format!("ld.global.b32 %r{word}, [%d0+{}];\n", 4 * word);
        }
        let (k, element) = (self.k, self.element);
        let sum = if self.half { "f16" } else { "f32" };
        let (c, first) = (list(na + nb, nc), na + nb);
        let (a, b) = (list(0, na), list(na, nb));
        body += &format!(
            "mma.sync.aligned.m16n8k{k}.row.col.{sum}.{element}.{element}.{sum} {c}, {a}, {b}, {c};\n"
        );
        for word in first..stride {
            body += &format!("st.global.b32 [%d0+{}], %r{word};\n", 4 * word);
        }
        let module = Module::parse(&kernel("sm_80", "", &(body + "ret;")))?;
        let memory = Memory::new();
        let input = bytes(&input);
        let buffer = memory.alloc(input.len() as u64);
        memory.write(buffer, &input)?;
        let (grid, block, params) = ([1; 3], [32, 1, 1], &buffer.to_le_bytes());
        launch(
            &module,
            &memory,
            Launch { entry: "k", grid, block, params, tensor, ..Launch::default() },
        )?;
        let mut back = vec![0; input.len()];
        memory.read(buffer, &mut back)?;
        let mut d = vec![vec![0; 8]; 16];
        for (lane, lane_words) in words(&back).chunks(stride).enumerate() {
            for (i, (row, column)) in of_c(lane).enumerate() {
                d[row][column] = match self.half {
                    true => lane_words[first + i / 2] >> (16 * (i % 2)) & 0xffff,
                    false => lane_words[first + i],
                };
            }
        }
        Ok(d)
    }

    /// The model's sum of a row and a column, as the accumulator's bits.
    fn expected(self, tensor: Tensor, a: &[u32], b: &[u32], c: u32) -> u32 {
        let (products, extra, exact) = match tensor {
            Tensor::A100 => (16 / if self.bits == TF32 { 4 } else { 2 }, 1, false),
            Tensor::H100 => (self.k, 2, false),
            _ => (self.k, 0, true),
        };
        let mut sum = c;
        for (a, b) in a.chunks(products).zip(b.chunks(products)) {
            let mut addends = vec![number(sum, self.accumulator())];
            for (&a, &b) in a.iter().zip(b) {
                let ((a, of_a), (b, of_b)) = (number(a, self.bits), number(b, self.bits));
                addends.push(((a * b) >> POINT, of_a + of_b));
                assert_eq!(addends[addends.len() - 1].0 << POINT, a * b, "a product is exact");
            }
            let largest = addends.iter().map(|addend| addend.1).max().unwrap();
            let grid = if exact { 0 } else { POINT + largest - 23 - extra };
            let total = addends.iter().map(|(value, _)| value / (1 << grid) * (1 << grid)).sum();
            sum = rounded(total, self.accumulator(), exact || self.half);
        }
        sum
    }
}

/// A number as a multiple of `2^-POINT`, and its exponent.
fn number(bits: u32, [width, exponent, fraction]: [u32; 3]) -> (i128, i32) {
    let field = (bits >> fraction & ((1 << exponent) - 1)) as i32;
    assert!(field != 0 && width == 1 + exponent + fraction, "a normal number");
    let power = field - ((1 << (exponent - 1)) - 1);
    let size = i128::from(bits & ((1 << fraction) - 1) | 1 << fraction);
    let value = size << (POINT + power - fraction as i32);
    (if bits >> (width - 1) & 1 == 1 { -value } else { value }, power)
}

/// The bits of a multiple of `2^-POINT`, rounded to the nearest, ties to even, or toward zero.
fn rounded(value: i128, [width, exponent, fraction]: [u32; 3], nearest: bool) -> u32 {
    if value == 0 {
        return 0;
    }
    let size = value.unsigned_abs();
    let power = size.ilog2() as i32 - POINT;
    let shift = size.ilog2() as i32 - fraction as i32;
    let (size, shift) = if shift < 1 { (size << (1 - shift), 1) } else { (size, shift) };
    let mut kept = size >> shift;
    let (rest, tie) = (size - (kept << shift), 1u128 << (shift - 1));
    if nearest && (rest > tie || rest == tie && kept % 2 == 1) {
        kept += 1;
    }
    // A carry into the next power adds one to the exponent.
    let field = (power + (1 << (exponent - 1)) - 2) as u32;
    let bits = (field << fraction) + kept as u32;
    bits | u32::from(value < 0) << (width - 1)
}

/// Random normal numbers with exponents of -8 to 3.
fn random(state: &mut u64, [width, exponent, fraction]: [u32; 3]) -> u32 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    let bits = (*state >> 32) as u32;
    let field = (1 << (exponent - 1)) - 9 + (bits >> 24) % 12;
    (bits & 1) << (width - 1) | field << fraction | bits >> 1 & ((1 << fraction) - 1)
}

const MODELS: [Tensor; 3] = [Tensor::Exact, Tensor::A100, Tensor::H100];

#[test]
fn random_products_are_summed_as_the_models_say() {
    let mut state = 38;
    let mut different = [0; 3];
    for form in FORMS {
        for _ in 0..8 {
            let mut matrix = |rows: usize, columns: usize, bits: [u32; 3]| -> Vec<Vec<u32>> {
                (0..rows)
                    .map(|_| (0..columns).map(|_| random(&mut state, bits)).collect())
                    .collect()
            };
            let (a, b) = (matrix(16, form.k, form.bits), matrix(8, form.k, form.bits));
            let matrices = Matrices { a, b, c: matrix(16, 8, form.accumulator()) };
            let found = MODELS.map(|tensor| form.run(tensor, &matrices).unwrap());
            for row in 0..16 {
                for column in 0..8 {
                    let (a, b) = (&matrices.a[row], &matrices.b[column]);
                    for (found, tensor) in found.iter().zip(MODELS) {
                        let expected = form.expected(tensor, a, b, matrices.c[row][column]);
                        let (k, element) = (form.k, form.element);
                        assert_eq!(
                            found[row][column], expected,
                            "{tensor:?} {element} k {k} at {row}, {column}"
                        );
                    }
                    let [exact, a100, h100] = [0, 1, 2].map(|i| found[i][row][column]);
                    different[0] += u32::from(exact != a100);
                    different[1] += u32::from(exact != h100);
                    different[2] += u32::from(a100 != h100);
                }
            }
        }
    }
    assert!(different.iter().all(|&count| count > 100), "{different:?}");
}

/// To one are added products that an A100 or both chips lose.
#[test]
fn one_product_differs() {
    let f16 = |exponent: i32| ((exponent + 15) as u32) << 10;
    let form = FORMS[0];
    let one = 1.0_f32.to_bits();
    let unit = one + 1;
    // Count of products of 2^exponent, and the sums: exact, of an A100, of an H100.
    for (count, exponent, sums) in
        [(2, -24, [unit; 3]), (4, -25, [unit, one, unit]), (8, -26, [unit, one, one])]
    {
        let product = |k: usize| if k < count { f16(exponent + 12) } else { 0 };
        let a = vec![(0..16).map(product).collect(); 16];
        let matrices = Matrices { a, b: vec![vec![f16(-12); 16]; 8], c: vec![vec![one; 8]; 16] };
        for (tensor, sum) in MODELS.into_iter().zip(sums) {
            let found = form.run(tensor, &matrices).unwrap();
            assert!(found.iter().flatten().all(|&d| d == sum), "{tensor:?}, 2^{exponent}");
        }
    }
}

#[test]
fn numbers_at_the_ends() {
    let (infinity, nan) = (f32::INFINITY.to_bits(), 0x7fff_ffff);
    let bf16 = |value: f32| value.to_bits() >> 16;
    let form = FORMS[4];
    // Two factors in each column, twice, the sum so far, and the sum of all models.
    for (a, b, c, expected) in [
        (f32::INFINITY, 1.0, 1.0, infinity),
        (f32::INFINITY, 0.0, 1.0, nan),
        (f32::INFINITY, 1.0, f32::NEG_INFINITY, nan),
        (1.0, 1.0, f32::NAN, nan),
        (2.0_f32.powi(100), 2.0_f32.powi(28), 1.0, infinity),
        (0.0, 1.0, 0.0, 0),
        (0.0, 1.0, 2.0_f32.powi(-149), 1),
        (2.0_f32.powi(-70), 2.0_f32.powi(-70), 0.0, 2.0_f32.powi(-139).to_bits()),
    ] {
        let row: Vec<u32> = (0..16).map(|k| if k < 2 { bf16(a) } else { 0 }).collect();
        let matrices = Matrices {
            a: vec![row; 16],
            b: vec![vec![bf16(b); 16]; 8],
            c: vec![vec![c.to_bits(); 8]; 16],
        };
        for tensor in MODELS {
            let found = form.run(tensor, &matrices).unwrap()[0][0];
            let same = found == expected || expected == nan && f32::from_bits(found).is_nan();
            assert!(same, "{tensor:?} {a} {b} {c}: {found:x}");
        }
    }
}
