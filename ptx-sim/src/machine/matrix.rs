//! Matrix instructions: `ldmatrix`, `stmatrix`, `mma.sync` and the asynchronous `wgmma`.

use super::team::Team;
use super::warp::{Warp, WgmmaGroup};
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{LANES, Mask};
use crate::measure;
use crate::program::{Inst, Matrix, Mma, MmaKind, SHARED_WINDOW, Wgmma, WgmmaA};
use crate::syntax::ast::Space;
use crate::tensor::descriptor::Descriptor;
use crate::tensor::fragment;

impl Team<'_> {
    /// `ldmatrix` and `stmatrix`: lanes 8i to 8i + 7 point to the rows of matrix i.
    pub fn matrix(&mut self, warp: &mut Warp, op: &Matrix, mask: Mask) -> Step {
        Self::converged(warp, mask)?;
        let mut at = Self::addresses(warp, &op.address);
        if op.address.space == Space::Generic {
            at = at.map(|a| a.wrapping_sub(SHARED_WINDOW));
        }
        let count = op.registers.len();
        let mut rows = [0u32; LANES];
        for lane in 0..8 * count {
            rows[lane] = self.shared.locate(lane, at[lane], 16, 16)?;
        }
        let rows = &rows[..8 * count];
        let transfers = measure::matrix_wavefronts(rows);
        let counts = self.tally.here();
        counts.wavefronts += transfers.done;
        counts.ideal_wavefronts += transfers.ideal;
        for (i, &slot) in op.registers.iter().enumerate() {
            let mut matrix = [[0u16; 8]; 8];
            if op.store {
                let words = &warp.registers.narrow[slot as usize];
                for (lane, word) in words.iter().enumerate() {
                    let (row, column) = fragment::ldmatrix(lane as u32);
                    let (row, column) = (row as usize, column as usize);
                    for (e, half) in [*word as u16, (*word >> 16) as u16].into_iter().enumerate() {
                        if op.transpose {
                            matrix[column + e][row] = half;
                        } else {
                            matrix[row][column + e] = half;
                        }
                    }
                }
                for (row, values) in matrix.iter().enumerate() {
                    let lane = 8 * i + row;
                    let mut data = [0; 16];
                    for (to, half) in data.chunks_exact_mut(2).zip(values) {
                        to.copy_from_slice(&half.to_le_bytes());
                    }
                    let actor = self.actor(warp, lane);
                    self.shared
                        .write(&self.clocks, actor, rows[lane], &data)
                        .map_err(|c| self.refuse(actor, c))?;
                    self.shared.slice_mut(rows[lane], 16).copy_from_slice(&data);
                }
            } else {
                for (row, values) in matrix.iter_mut().enumerate() {
                    let lane = 8 * i + row;
                    let actor = self.actor(warp, lane);
                    self.shared
                        .read(&self.clocks, actor, rows[lane], 16)
                        .map_err(|c| self.refuse(actor, c))?;
                    let data = self.shared.slice(rows[lane], 16);
                    for (half, from) in values.iter_mut().zip(data.chunks_exact(2)) {
                        *half = u16::from_le_bytes([from[0], from[1]]);
                    }
                }
                let words = &mut warp.registers.narrow[slot as usize];
                for (lane, word) in words.iter_mut().enumerate() {
                    let (row, column) = fragment::ldmatrix(lane as u32);
                    let (row, column) = (row as usize, column as usize);
                    let halves = if op.transpose {
                        [matrix[column][row], matrix[column + 1][row]]
                    } else {
                        [matrix[row][column], matrix[row][column + 1]]
                    };
                    *word = u32::from(halves[1]) << 16 | u32::from(halves[0]);
                }
            }
        }
        Ok(())
    }

    pub fn mma(&mut self, warp: &mut Warp, op: &Mma, mask: Mask) -> Step {
        Self::full(warp, mask)?;
        if self.env.sample.is_some() {
            return Ok(());
        }
        self.multiplier.a.read_a(&op.kind, &warp.registers, &op.a);
        self.multiplier.b.read_b(&op.kind, &warp.registers, &op.b);
        let wrapped = self.multiplier.multiply(
            self.env.tensor,
            &op.kind,
            &mut warp.registers,
            Some(&op.c),
            &op.d,
        );
        self.tally.here().overflows += wrapped;
        Ok(())
    }

    /// Fragments are spread over all 32 lanes: none may have exited.
    fn full(warp: &Warp, mask: Mask) -> Step {
        Self::converged(warp, mask)?;
        if mask == Mask::MAX {
            return Ok(());
        }
        Err(Stop::new(
            FaultKind::Divergence,
            format!("lanes 0x{:08x} have exited, but the instruction needs all 32", !mask),
        ))
    }

    /// Reads rows of an operand through a descriptor into a panel; the 16-byte units that were read.
    fn descriptor_panel(
        &mut self,
        warp: &Warp,
        bits: u64,
        rows: std::ops::Range<u32>,
        kind: &MmaKind,
        is_a: bool,
    ) -> Step<Vec<u32>> {
        let descriptor = Descriptor::decode(bits).map_err(|e| Stop::new(FaultKind::Invalid, e))?;
        let mut reads = Vec::new();
        let element = if is_a { kind.a } else { kind.b };
        let row_bytes = kind.k * element.bits() / 8;
        let mut panel =
            std::mem::take(if is_a { &mut self.multiplier.a } else { &mut self.multiplier.b });
        panel.reset(element, rows.len() as u32, kind.k);
        let per_word = 32 / element.bits();
        for (row, place) in rows.zip(0..) {
            for unit in (0..row_bytes).step_by(16) {
                let address = descriptor.address(row, unit);
                let at = self.shared.locate(0, u64::from(address), 16, 16)?;
                let actor = self.actor(warp, 0);
                self.shared
                    .begin_async_read(&self.clocks, actor, at, 16)
                    .map_err(|c| self.refuse(actor, c))?;
                reads.push(at);
                let words = (0..4).map(|word| {
                    let k = (unit / 4 + word) * per_word;
                    (place * kind.k + k, self.shared.load(at + 4 * word, 4) as u32)
                });
                panel.put(element, words);
            }
        }
        *(if is_a { &mut self.multiplier.a } else { &mut self.multiplier.b }) = panel;
        Ok(reads)
    }

    /// A descriptor is the same in all lanes.
    fn uniform_wide(warp: &Warp, slot: u32) -> Step<u64> {
        let values = &warp.registers.wide[slot as usize];
        match values.iter().position(|v| *v != values[0]) {
            None => Ok(values[0]),
            Some(lane) => Err(Stop::at(
                FaultKind::Divergence,
                lane,
                "the matrix descriptor differs between lanes",
            )),
        }
    }

    pub fn wgmma(&mut self, warp: &mut Warp, op: &Wgmma, mask: Mask) -> Step {
        Self::full(warp, mask)?;
        self.warpgroup(warp)?;
        if self.env.sample.is_some() {
            return Ok(());
        }
        let registers: &[u32] = match &op.a {
            WgmmaA::Registers(slots) => slots,
            WgmmaA::Descriptor(_) => &[],
        };
        if op.d.iter().chain(registers).any(|slot| warp.wgmma.dirty.contains(slot)) {
            return Err(Stop::new(
                FaultKind::MissingWait,
                "registers of this wgmma were written by other instructions since the last wgmma.fence: wgmma.fence is missing",
            ));
        }
        if let Some(slot) = registers.iter().find(|slot| warp.wgmma.results.contains_key(slot)) {
            let (_, source) = warp.wgmma.results[slot];
            return Err(self.in_flight(source));
        }
        let mut reads = Vec::new();
        match &op.a {
            WgmmaA::Registers(slots) => self.multiplier.a.read_a(&op.kind, &warp.registers, slots),
            WgmmaA::Descriptor(slot) => {
                let bits = Self::uniform_wide(warp, *slot)?;
                let first = 16 * (warp.index as u32 % 4);
                reads = self.descriptor_panel(warp, bits, first..first + 16, &op.kind, true)?;
            }
        }
        let bits = Self::uniform_wide(warp, op.b)?;
        reads.extend(self.descriptor_panel(warp, bits, 0..op.kind.n, &op.kind, false)?);
        if op.negate_a {
            self.multiplier.a.negate();
        }
        if op.negate_b {
            self.multiplier.b.negate();
        }
        let scale = warp.registers.predicates[op.scale_d as usize];
        if scale != 0 && scale != Mask::MAX {
            return Err(Stop::new(FaultKind::Divergence, "scale-d differs between lanes"));
        }
        let c = (scale != 0).then_some(op.d.as_slice());
        let wrapped =
            self.multiplier.multiply(self.env.tensor, &op.kind, &mut warp.registers, c, &op.d);
        self.tally.here().overflows += wrapped;
        let source = self.tally.source;
        let state = &mut warp.wgmma;
        for &slot in &op.d {
            let entry = state.results.entry(slot).or_insert((0, source));
            *entry = (entry.0 + 1, source);
        }
        for &slot in registers {
            *state.operands.entry(slot).or_default() += 1;
        }
        state.open.results.extend(&op.d);
        state.open.operands.extend(registers);
        state.open.reads.append(&mut reads);
        Ok(())
    }

    /// wgmma belongs to four warps from a multiple of four on.
    fn warpgroup(&self, warp: &Warp) -> Step {
        let warps = self.copies.len();
        if warp.index / 4 * 4 + 4 > warps {
            return Err(Stop::new(
                FaultKind::Divergence,
                format!("wgmma needs groups of four warps, the block has {warps} warps"),
            ));
        }
        Ok(())
    }

    pub fn wgmma_fence(&mut self, warp: &mut Warp, mask: Mask) -> Step {
        Self::converged(warp, mask)?;
        warp.wgmma.dirty.clear();
        Ok(())
    }

    pub fn wgmma_commit(&mut self, warp: &mut Warp, mask: Mask) -> Step {
        Self::converged(warp, mask)?;
        let group = std::mem::take(&mut warp.wgmma.open);
        warp.wgmma.groups.push_back(group);
        Ok(())
    }

    pub fn wgmma_wait(&mut self, warp: &mut Warp, pending: u32, mask: Mask) -> Step {
        Self::converged(warp, mask)?;
        let mut retired = false;
        while warp.wgmma.groups.len() > pending as usize {
            let group = warp.wgmma.groups.pop_front().unwrap_or_default();
            retired = true;
            let state = &mut warp.wgmma;
            for slot in &group.results {
                if let Some((count, _)) = state.results.get_mut(slot) {
                    *count -= 1;
                    if *count == 0 {
                        state.results.remove(slot);
                    }
                }
            }
            for slot in &group.operands {
                if let Some(count) = state.operands.get_mut(slot) {
                    *count -= 1;
                    if *count == 0 {
                        state.operands.remove(slot);
                    }
                }
            }
            for &at in &group.reads {
                self.shared.end_async_read(&self.clocks, warp.index, at, 16);
            }
        }
        if retired {
            // Bytes that younger multiplies still read stay in flight.
            let younger = warp.wgmma.groups.iter().chain([&warp.wgmma.open]);
            for &at in younger.flat_map(|g: &WgmmaGroup| &g.reads) {
                self.shared.keep_async_read(warp.index, at, 16);
            }
        }
        Ok(())
    }

    fn in_flight(&self, source: u32) -> Box<Stop> {
        let source = &self.env.program.sources[source as usize];
        Stop::new(
            FaultKind::MissingWait,
            format!(
                "a register is still being used by `{}` on line {}: wgmma.wait_group is missing",
                source.opcode, source.line
            ),
        )
    }

    /// An instruction that is not a wgmma touches registers that some wgmma uses.
    pub fn touch(&mut self, warp: &mut Warp, inst: &Inst, mask: Mask) -> Step {
        if mask == 0 {
            return Ok(());
        }
        for &(reg, written) in &self.env.program.touches[inst.touches as usize] {
            if let Some(&(_, source)) = warp.wgmma.results.get(&reg.slot) {
                return Err(self.in_flight(source));
            }
            if written {
                if warp.wgmma.operands.contains_key(&reg.slot) {
                    return Err(Stop::new(
                        FaultKind::MissingWait,
                        "a register is written while a wgmma still reads it: wgmma.wait_group is missing",
                    ));
                }
                warp.wgmma.dirty.insert(reg.slot);
            }
        }
        Ok(())
    }
}
