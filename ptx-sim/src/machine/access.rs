//! Loads, stores and atomics in every state space.

use super::clocks::Clocks;
use super::shadow::{Kind, Write};
use super::shared::{Actor, Conflict, Remote, Shared};
use super::state::SharedAddress;
use super::team::Team;
use super::warp::Warp;
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{Addresses, Class, LANES, Mask, lanes};
use crate::measure;
use crate::memory::Region;
use crate::program::{
    Address, Atomic, LOCAL_WINDOW, Load, PARAM_WINDOW, Rmw, SHARED_WINDOW, Store, WINDOW,
};
use crate::syntax::ast::{Space, Type};

/// Registers of one vector access at most.
const MAX_VECTOR: usize = 8;

impl<'a> Team<'a> {
    /// Addresses that an operand points to, in its own space.
    #[inline]
    pub fn addresses(warp: &Warp, address: &Address) -> Addresses {
        let offset = address.offset;
        match address.base {
            None => [offset as u64; LANES],
            Some(reg) => {
                let mut out = [0; LANES];
                match reg.class {
                    Class::Wide => {
                        let base = &warp.registers.wide[reg.slot as usize];
                        for l in 0..LANES {
                            out[l] = base[l].wrapping_add_signed(offset);
                        }
                    }
                    _ => {
                        let base = &warp.registers.narrow[reg.slot as usize];
                        for l in 0..LANES {
                            out[l] = u64::from(base[l].wrapping_add(offset as u32));
                        }
                    }
                }
                out
            }
        }
    }

    /// Splits generic addresses by the window they lie in.
    pub fn resolve(
        space: Space,
        mut at: Addresses,
        mask: Mask,
        mut f: impl FnMut(Space, &Addresses, Mask) -> Step,
    ) -> Step {
        if space != Space::Generic {
            return f(space, &at, mask);
        }
        let mut masks = [0; 4];
        for lane in lanes(mask) {
            let windows = [SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW];
            let found = windows.iter().position(|w| at[lane].wrapping_sub(*w) < WINDOW);
            match found {
                Some(i) => {
                    at[lane] -= windows[i];
                    masks[i] |= 1 << lane;
                }
                None => masks[3] |= 1 << lane,
            }
        }
        let spaces = [Space::Shared, Space::Local, Space::Param, Space::Global];
        for (space, mask) in spaces.into_iter().zip(masks) {
            if mask != 0 {
                f(space, &at, mask)?;
            }
        }
        Ok(())
    }

    /// The allocation that holds an access to global memory.
    #[inline(always)]
    pub fn region(
        &self,
        last: Option<&'a Region>,
        lane: usize,
        address: u64,
        bytes: u32,
        align: u32,
    ) -> Step<&'a Region> {
        let region = match last {
            Some(region) if region.holds(address, u64::from(bytes)) => region,
            _ => match self.env.view.find(address, u64::from(bytes)) {
                Some(region) => region,
                None => {
                    return Err(Stop::at(
                        FaultKind::OutOfBounds,
                        lane,
                        format!(
                            "{bytes} bytes at global address 0x{address:x}, {}, are outside of every allocation",
                            self.env.view.describe(address)
                        ),
                    ));
                }
            },
        };
        if !address.is_multiple_of(u64::from(align)) {
            return Err(Stop::at(
                FaultKind::Misaligned,
                lane,
                format!("global address 0x{address:x} is not a multiple of {align}"),
            ));
        }
        Ok(region)
    }

    /// Offset of a local access in the frames of the warp.
    fn local(&self, lane: usize, address: u64, bytes: u32) -> Step<usize> {
        let frame = u64::from(self.env.program.local_bytes);
        if address > frame || frame - address < u64::from(bytes) {
            return Err(Stop::at(
                FaultKind::OutOfBounds,
                lane,
                format!(
                    "{bytes} bytes at local address 0x{address:x} are outside of the frame of {frame} bytes"
                ),
            ));
        }
        if !address.is_multiple_of(u64::from(bytes)) {
            return Err(Stop::at(
                FaultKind::Misaligned,
                lane,
                format!("local address 0x{address:x} is not a multiple of {bytes}"),
            ));
        }
        Ok((lane as u64 * frame + address) as usize)
    }

    pub fn count_global(&mut self, at: &Addresses, mask: Mask, bytes: u32) {
        let transfers = measure::sectors(at, mask, bytes);
        let counts = self.tally.here();
        counts.bytes += u64::from(mask.count_ones()) * u64::from(bytes);
        counts.sectors += transfers.done;
        counts.ideal_sectors += transfers.ideal;
    }

    pub fn count_shared(&mut self, at: &Addresses, mask: Mask, bytes: u32) {
        let transfers = measure::wavefronts(at, mask, bytes);
        let counts = self.tally.here();
        counts.wavefronts += transfers.done;
        counts.ideal_wavefronts += transfers.ideal;
    }

    pub fn load(&mut self, warp: &mut Warp, op: &Load, mask: Mask) -> Step {
        let at = Self::addresses(warp, &op.address);
        let total = op.bytes * op.elements.len() as u32;
        let mut values = [[0u64; LANES]; MAX_VECTOR];
        Self::resolve(op.address.space, at, mask, |space, at, mask| {
            self.load_from(warp, space, at, mask, op, total, &mut values)
        })?;
        for (reg, values) in op.elements.iter().zip(&mut values) {
            let Some(reg) = reg else { continue };
            if op.signed && op.bytes < 8 {
                let shift = 64 - 8 * op.bytes;
                for v in values.iter_mut() {
                    *v = ((*v << shift) as i64 >> shift) as u64;
                }
            }
            warp.registers.set_bits(*reg, mask, values);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn load_from(
        &mut self,
        warp: &Warp,
        space: Space,
        at: &Addresses,
        mask: Mask,
        op: &Load,
        total: u32,
        values: &mut [[u64; LANES]; MAX_VECTOR],
    ) -> Step {
        let bytes = op.bytes;
        let count = op.elements.len();
        match space {
            Space::Shared => {
                self.count_shared(at, mask, total);
                for lane in lanes(mask) {
                    let place = (at[lane], total);
                    let (shared, from) = self.shared_at(
                        warp,
                        lane,
                        place,
                        Remote::Read,
                        |shared, clocks, by, at| shared.read(clocks, by, at, total),
                    )?;
                    for (e, values) in values[..count].iter_mut().enumerate() {
                        values[lane] = shared.load(from + e as u32 * bytes, bytes);
                    }
                }
            }
            Space::Global | Space::Const | Space::Generic => {
                self.count_global(at, mask, total);
                let mut last = None;
                for lane in lanes(mask) {
                    let region = self.region(last, lane, at[lane], total, total)?;
                    for (e, values) in values[..count].iter_mut().enumerate() {
                        values[lane] = region.load(at[lane] + e as u64 * u64::from(bytes), bytes);
                    }
                    last = Some(region);
                }
                if space != Space::Const {
                    self.global(warp, at, mask, total, op.order, Kind::Read)?;
                }
            }
            Space::Local => {
                for lane in lanes(mask) {
                    let from = self.local(lane, at[lane], total)?;
                    for (e, values) in values[..count].iter_mut().enumerate() {
                        let from = from + e * bytes as usize;
                        values[lane] = little_endian(&warp.local[from..from + bytes as usize]);
                    }
                }
            }
            Space::Param => {
                let params = self.env.params;
                for lane in lanes(mask) {
                    let from = at[lane] as usize;
                    if at[lane]
                        .checked_add(u64::from(total))
                        .is_none_or(|end| end > params.len() as u64)
                    {
                        return Err(Stop::at(
                            FaultKind::OutOfBounds,
                            lane,
                            format!(
                                "{total} bytes at parameter offset {from} are outside of the {} parameter bytes",
                                params.len()
                            ),
                        ));
                    }
                    for (e, values) in values[..count].iter_mut().enumerate() {
                        let from = from + e * bytes as usize;
                        values[lane] = little_endian(&params[from..from + bytes as usize]);
                    }
                }
            }
        }
        Ok(())
    }

    /// The shared memory that a lane's access goes to, and its place there: in the block itself, where `note` checks and
    /// notes it, or in another of the cluster.
    #[inline(always)]
    fn shared_at(
        &mut self,
        warp: &Warp,
        lane: usize,
        (address, bytes): (u64, u32),
        remote: Remote,
        note: impl FnOnce(&mut Shared, &Clocks, Actor, u32) -> Result<(), Conflict>,
    ) -> Step<(&mut Shared, u32)> {
        let address = match self.place(lane, address)? {
            SharedAddress::Here(address) => address,
            SharedAddress::There { rank, address } => {
                let at = self.reach(warp, lane, (rank, address), (bytes, bytes), remote)?;
                return Ok((&mut self.cluster.peers[rank].shared, at));
            }
        };
        let at = self.shared.locate(lane, address, bytes, bytes)?;
        let actor = self.actor(warp, lane);
        note(&mut self.shared, &self.clocks, actor, at).map_err(|c| self.refuse(actor, c))?;
        Ok((&mut self.shared, at))
    }

    pub fn store(&mut self, warp: &mut Warp, op: &Store, mask: Mask) -> Step {
        self.stores += 1;
        let at = Self::addresses(warp, &op.address);
        let bytes = op.bytes;
        let total = bytes * op.elements.len() as u32;
        let count = op.elements.len();
        let mut values = [[0u64; LANES]; MAX_VECTOR];
        for (reg, values) in op.elements.iter().zip(&mut values) {
            *values = warp.registers.bits(*reg);
        }
        Self::resolve(op.address.space, at, mask, |space, at, mask| {
            match space {
                Space::Shared => {
                    self.count_shared(at, mask, total);
                    for lane in lanes(mask) {
                        // Eight bytes at a time: what runs over is overwritten by the next.
                        let mut data = [0; 8 * MAX_VECTOR + 8];
                        for (e, values) in values[..count].iter().enumerate() {
                            data[e * bytes as usize..][..8]
                                .copy_from_slice(&values[lane].to_le_bytes());
                        }
                        let (place, data) = ((at[lane], total), &data[..total as usize]);
                        let (shared, to) = self.shared_at(
                            warp,
                            lane,
                            place,
                            Remote::Write,
                            |shared, clocks, by, at| shared.write(clocks, by, at, data),
                        )?;
                        for (e, values) in values[..count].iter().enumerate() {
                            shared.store(to + e as u32 * bytes, bytes, values[lane]);
                        }
                    }
                }
                Space::Global | Space::Generic => {
                    self.count_global(at, mask, total);
                    self.store_global(warp, at, mask, op, &values[..count])?;
                }
                Space::Local => {
                    for lane in lanes(mask) {
                        let to = self.local(lane, at[lane], total)?;
                        for (e, values) in values[..count].iter().enumerate() {
                            let to = to + e * bytes as usize;
                            warp.local[to..to + bytes as usize]
                                .copy_from_slice(&values[lane].to_le_bytes()[..bytes as usize]);
                        }
                    }
                }
                Space::Const | Space::Param => {
                    return Err(Stop::new(
                        FaultKind::OutOfBounds,
                        "a store to constant memory or to the kernel's parameters",
                    ));
                }
            }
            Ok(())
        })
    }

    fn store_global(
        &mut self,
        warp: &Warp,
        at: &Addresses,
        mask: Mask,
        op: &Store,
        values: &[[u64; LANES]],
    ) -> Step {
        let (bytes, total) = (op.bytes, op.bytes * values.len() as u32);
        let env = self.env;
        let value = |lane: usize, e: usize| values[e][lane] & (u64::MAX >> (64 - 8 * bytes));
        let same = |lane: usize, twin: Option<usize>| match twin {
            Some(twin) => (0..values.len()).all(|e| value(lane, e) == value(twin, e)),
            None => env.view.find(at[lane], u64::from(total)).is_some_and(|region| {
                (0..values.len()).all(|e| {
                    let to = at[lane] + e as u64 * u64::from(bytes);
                    region.load(to, bytes) == value(lane, e)
                })
            }),
        };
        let mut regions = [None; LANES];
        let mut last = None;
        for lane in lanes(mask) {
            last = Some(self.region(last, lane, at[lane], total, total)?);
            regions[lane] = last;
        }
        let store = |lane: usize| {
            let region: &Region = regions[lane].expect("lanes of the mask have regions");
            for (e, values) in values.iter().enumerate() {
                region.store(at[lane] + e as u64 * u64::from(bytes), bytes, values[lane]);
            }
        };
        let write = Write { same: &same, store: &store };
        self.global(warp, at, mask, total, op.order, Kind::Write(write))
    }

    pub fn atomic(&mut self, warp: &mut Warp, op: &Atomic, mask: Mask) -> Step {
        let at = Self::addresses(warp, &op.address);
        let bytes = op.ty.bytes();
        let a = warp.registers.bits(op.a);
        let b = op.b.map_or([0; LANES], |b| warp.registers.bits(b));
        let mut old = [0u64; LANES];
        Self::resolve(op.address.space, at, mask, |space, at, mask| {
            match space {
                Space::Shared => {
                    self.count_shared(at, mask, bytes);
                    for lane in lanes(mask) {
                        let place = (at[lane], bytes);
                        let (shared, at) = self.shared_at(
                            warp,
                            lane,
                            place,
                            Remote::Atomic,
                            |shared, clocks, by, at| shared.update(clocks, by, at, bytes),
                        )?;
                        old[lane] = shared.load(at, bytes);
                        let new = modify(op.op, op.ty, old[lane], a[lane], b[lane]);
                        shared.store(at, bytes, new);
                        self.stores += u64::from(new != old[lane]);
                    }
                }
                Space::Global | Space::Generic => {
                    self.count_global(at, mask, bytes);
                    for lane in lanes(mask) {
                        self.region(None, lane, at[lane], bytes, bytes)?;
                    }
                    self.global(warp, at, mask, bytes, op.order, Kind::Atomic)?;
                    for lane in lanes(mask) {
                        let region = self.region(None, lane, at[lane], bytes, bytes)?;
                        old[lane] = region
                            .update(at[lane], bytes, |v| modify(op.op, op.ty, v, a[lane], b[lane]));
                        let new = modify(op.op, op.ty, old[lane], a[lane], b[lane]);
                        self.stores += u64::from(new != old[lane]);
                    }
                }
                _ => {
                    return Err(Stop::new(
                        FaultKind::Invalid,
                        "an atomic on local, constant or parameter memory",
                    ));
                }
            }
            Ok(())
        })?;
        if let Some(d) = op.d {
            warp.registers.set_bits(d, mask, &old);
        }
        Ok(())
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

/// The value that an atomic leaves behind; `a` and `b` are its operands.
pub fn modify(op: Rmw, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let narrow = ty.bytes() == 4;
    let signed = matches!(ty, Type::S32 | Type::S64);
    let cut = |v: u64| if narrow { u64::from(v as u32) } else { v };
    let sign = |v: u64| if narrow { i64::from(v as u32 as i32) } else { v as i64 };
    let (old, a) = if ty.bytes() == 2 { (old & 0xffff, a & 0xffff) } else { (cut(old), cut(a)) };
    match op {
        Rmw::Add => match ty {
            Type::F32 => {
                let sum = f32::from_bits(old as u32) + f32::from_bits(a as u32);
                u64::from(sum.to_bits())
            }
            Type::F64 => (f64::from_bits(old) + f64::from_bits(a)).to_bits(),
            _ => cut(old.wrapping_add(a)),
        },
        Rmw::Min if signed => {
            if sign(a) < sign(old) {
                a
            } else {
                old
            }
        }
        Rmw::Max if signed => {
            if sign(a) > sign(old) {
                a
            } else {
                old
            }
        }
        Rmw::Min => old.min(a),
        Rmw::Max => old.max(a),
        Rmw::And => old & a,
        Rmw::Or => old | a,
        Rmw::Xor => old ^ a,
        Rmw::Exchange => a,
        Rmw::CompareSwap => {
            if old == a {
                b
            } else {
                old
            }
        }
        Rmw::Increment => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        Rmw::Decrement => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
    }
}
