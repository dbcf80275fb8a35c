//! The register file of a warp: one array of 32 lanes per virtual register, so that an instruction is
//! a loop over lanes that the compiler vectorises.

use half::{bf16, f16};

/// Lanes of a warp.
pub const LANES: usize = 32;
/// One bit per lane.
pub type Mask = u32;
/// Addresses of all lanes.
pub type Addresses = [u64; LANES];
/// Every lane.
pub const ALL: Mask = u32::MAX;

/// Lanes set in `mask`, ascending.
pub fn lanes(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

/// Register classes. 8-, 16- and 32-bit registers are narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    Predicate,
    Narrow,
    Wide,
}

/// A register: its class and its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reg {
    pub class: Class,
    pub slot: u32,
}

/// All registers of one warp.
#[derive(Debug, Default)]
pub struct Registers {
    pub narrow: Vec<[u32; LANES]>,
    pub wide: Vec<[u64; LANES]>,
    pub predicates: Vec<Mask>,
}

impl Registers {
    /// Takes over the contents of `other`, without allocating where there is room.
    pub fn copy_from(&mut self, other: &Self) {
        self.narrow.clone_from(&other.narrow);
        self.wide.clone_from(&other.wide);
        self.predicates.clone_from(&other.predicates);
    }

    /// The bits of a register, zero-extended.
    pub fn bits(&self, reg: Reg) -> [u64; LANES] {
        match reg.class {
            Class::Narrow => {
                let mut out = [0; LANES];
                for (out, &bits) in out.iter_mut().zip(&self.narrow[reg.slot as usize]) {
                    *out = u64::from(bits);
                }
                out
            }
            Class::Wide => self.wide[reg.slot as usize],
            Class::Predicate => {
                let bits = self.predicates[reg.slot as usize];
                std::array::from_fn(|l| u64::from(bits >> l & 1))
            }
        }
    }

    /// Stores bits, cut to the register's width, in the lanes of `mask`.
    pub fn set_bits(&mut self, reg: Reg, mask: Mask, values: &[u64; LANES]) {
        match reg.class {
            Class::Narrow => {
                let mut narrow = [0; LANES];
                for (narrow, &v) in narrow.iter_mut().zip(values) {
                    *narrow = v as u32;
                }
                u32::write(self, reg.slot, mask, &narrow);
            }
            Class::Wide => u64::write(self, reg.slot, mask, values),
            Class::Predicate => bool::write(self, reg.slot, mask, &values.map(|v| v != 0)),
        }
    }
}

/// A type that instructions see in a register. Sub-word values are stored sign- or zero-extended to 32
/// bits according to their type; readers look at their own width only.
pub trait Lane: Copy + Default {
    /// Every lane of a register.
    fn read(registers: &Registers, slot: u32) -> [Self; LANES];
    /// Stores the lanes of `mask`.
    fn write(registers: &mut Registers, slot: u32, mask: Mask, values: &[Self; LANES]);
}

macro_rules! narrow {
    ($($t:ty: $from:expr, $to:expr;)*) => {$(
        impl Lane for $t {
            #[inline(always)]
            fn read(registers: &Registers, slot: u32) -> [Self; LANES] {
                // Loops over lanes, unlike `array::map`, become vector instructions.
                let from: fn(u32) -> $t = $from;
                let mut values = [Self::default(); LANES];
                for (value, &bits) in values.iter_mut().zip(&registers.narrow[slot as usize]) {
                    *value = from(bits);
                }
                values
            }
            #[inline(always)]
            fn write(registers: &mut Registers, slot: u32, mask: Mask, values: &[Self; LANES]) {
                let bits = &mut registers.narrow[slot as usize];
                let to: fn($t) -> u32 = $to;
                if mask == ALL {
                    for l in 0..LANES {
                        bits[l] = to(values[l]);
                    }
                } else {
                    for l in 0..LANES {
                        let keep = (mask >> l & 1).wrapping_sub(1);
                        bits[l] = bits[l] & keep | to(values[l]) & !keep;
                    }
                }
            }
        }
    )*};
}

narrow! {
    u8: |b| b as u8, |v| u32::from(v);
    i8: |b| b as i8, |v| i32::from(v) as u32;
    u16: |b| b as u16, |v| u32::from(v);
    i16: |b| b as i16, |v| i32::from(v) as u32;
    u32: |b| b, |v| v;
    i32: |b| b as i32, |v| v as u32;
    // Arithmetic gives the canonical NaN; moves and selections are of bits.
    f32: f32::from_bits, |v| if v.is_nan() { 0x7fff_ffff } else { v.to_bits() };
    f16: |b| f16::from_bits(b as u16), |v| if v.is_nan() { 0x7fff } else { v.to_bits().into() };
    bf16: |b| bf16::from_bits(b as u16), |v| u32::from(v.to_bits());
}

macro_rules! wide {
    ($($t:ty: $from:expr, $to:expr;)*) => {$(
        impl Lane for $t {
            #[inline(always)]
            fn read(registers: &Registers, slot: u32) -> [Self; LANES] {
                let from: fn(u64) -> $t = $from;
                let mut values = [Self::default(); LANES];
                for (value, &bits) in values.iter_mut().zip(&registers.wide[slot as usize]) {
                    *value = from(bits);
                }
                values
            }
            #[inline(always)]
            fn write(registers: &mut Registers, slot: u32, mask: Mask, values: &[Self; LANES]) {
                let bits = &mut registers.wide[slot as usize];
                let to: fn($t) -> u64 = $to;
                if mask == ALL {
                    for l in 0..LANES {
                        bits[l] = to(values[l]);
                    }
                } else {
                    for l in 0..LANES {
                        let keep = u64::from(mask >> l & 1).wrapping_sub(1);
                        bits[l] = bits[l] & keep | to(values[l]) & !keep;
                    }
                }
            }
        }
    )*};
}

wide! {
    u64: |b| b, |v| v;
    i64: |b| b as i64, |v| v as u64;
    f64: f64::from_bits, f64::to_bits;
}

impl Lane for bool {
    #[inline(always)]
    fn read(registers: &Registers, slot: u32) -> [Self; LANES] {
        let bits = registers.predicates[slot as usize];
        std::array::from_fn(|l| bits >> l & 1 != 0)
    }
    #[inline(always)]
    fn write(registers: &mut Registers, slot: u32, mask: Mask, values: &[Self; LANES]) {
        let mut bits = 0;
        for (l, &value) in values.iter().enumerate() {
            bits |= u32::from(value) << l;
        }
        let old = &mut registers.predicates[slot as usize];
        *old = *old & !mask | bits & mask;
    }
}

/// The registers of a scalar instruction: destination and up to four sources.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slots {
    pub d: u32,
    pub s: [u32; 4],
}

/// A scalar instruction, decoded: reads its sources, computes 32 lanes, stores those of the mask.
pub type AluFn = fn(&mut Registers, &Slots, Mask);

/// Builds an [`AluFn`] from the formula of one lane: `alu!(|a: u32, b: u32| -> u32 { a & b })`.
macro_rules! alu {
    (|$($x:ident: $t:ty),*| -> $r:ty $body:block) => {{
        let f: $crate::lanes::AluFn = |registers, slots, mask| {
            let mut _source = slots.s.iter();
            $(let $x = <$t as $crate::lanes::Lane>::read(registers, *_source.next().unwrap());)*
            let mut out = [<$r>::default(); $crate::lanes::LANES];
            for l in 0..$crate::lanes::LANES {
                $(let $x = $x[l];)*
                out[l] = $body;
            }
            <$r as $crate::lanes::Lane>::write(registers, slots.d, mask, &out);
        };
        f
    }};
}
pub(crate) use alu;
