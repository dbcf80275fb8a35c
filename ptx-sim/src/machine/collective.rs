//! Instructions in which the lanes of a warp or the warps of a block take part together.

use super::state::Flow;
use super::team::Team;
use super::warp::{State, Warp};
use crate::error::{FaultKind, Step, Stop};
use crate::lanes::{LANES, Lane, Mask, lanes};
use crate::program::{
    Barrier, BarrierMode, Match, Redux, Rmw, Shuffle, ShuffleMode, Vote, VoteMode,
};

impl Team<'_> {
    /// The members of a `.sync` instruction: every lane names the same, is one of them, and all that have
    /// not exited are here.
    fn members(warp: &Warp, members: u32, mask: Mask) -> Step<Mask> {
        let named = &warp.registers.narrow[members as usize];
        let first = mask.trailing_zeros() as usize;
        let set = named[first];
        for lane in lanes(mask) {
            if named[lane] != set {
                return Err(Stop::at(
                    FaultKind::Divergence,
                    lane,
                    format!(
                        "member mask 0x{:08x} differs from 0x{set:08x} of lane {first}",
                        named[lane]
                    ),
                ));
            }
        }
        if mask & !set != 0 {
            let lane = (mask & !set).trailing_zeros() as usize;
            return Err(Stop::at(
                FaultKind::Divergence,
                lane,
                format!("the lane is not in its own member mask 0x{set:08x}"),
            ));
        }
        let missing = set & warp.live & !mask;
        if missing != 0 {
            return Err(Stop::new(
                FaultKind::Divergence,
                format!("member mask 0x{set:08x} names lanes 0x{missing:08x}, which are not here"),
            ));
        }
        Ok(set)
    }

    pub fn shuffle(&mut self, warp: &mut Warp, op: &Shuffle, mask: Mask) -> Step {
        Self::members(warp, op.members, mask)?;
        let a = warp.registers.narrow[op.a as usize];
        let b = warp.registers.narrow[op.b as usize];
        let c = warp.registers.narrow[op.c as usize];
        let mut out = [0u32; LANES];
        let mut valid = [false; LANES];
        for lane in lanes(mask) {
            let segment = (c[lane] >> 8 & 0x1f) as i32;
            let clamp = (c[lane] & 0x1f) as i32;
            let step = (b[lane] & 0x1f) as i32;
            let l = lane as i32;
            let max = (l & segment) | (clamp & !segment);
            let min = l & segment;
            let (source, inside) = match op.mode {
                ShuffleMode::Up => (l - step, l - step >= max),
                ShuffleMode::Down => (l + step, l + step <= max),
                ShuffleMode::Butterfly => (l ^ step, l ^ step <= max),
                ShuffleMode::Index => {
                    let source = min | (step & !segment);
                    (source, source <= max)
                }
            };
            let source = if inside { source as usize } else { lane };
            if mask >> source & 1 == 0 {
                return Err(Stop::at(
                    FaultKind::Divergence,
                    lane,
                    format!("reads from lane {source}, which does not take part"),
                ));
            }
            out[lane] = a[source];
            valid[lane] = inside;
        }
        u32::write(&mut warp.registers, op.d, mask, &out);
        if let Some(p) = op.p {
            bool::write(&mut warp.registers, p, mask, &valid);
        }
        Ok(())
    }

    pub fn vote(&mut self, warp: &mut Warp, op: &Vote, mask: Mask) -> Step {
        Self::members(warp, op.members, mask)?;
        let votes = warp.registers.predicates[op.a as usize] & mask;
        let verdict = match op.mode {
            VoteMode::All => votes == mask,
            VoteMode::Any => votes != 0,
            VoteMode::Uniform => votes == mask || votes == 0,
            VoteMode::Ballot => {
                u32::write(&mut warp.registers, op.d, mask, &[votes; LANES]);
                return Ok(());
            }
        };
        bool::write(&mut warp.registers, op.d, mask, &[verdict; LANES]);
        Ok(())
    }

    pub fn match_lanes(&mut self, warp: &mut Warp, op: &Match, mask: Mask) -> Step {
        Self::members(warp, op.members, mask)?;
        let a = warp.registers.bits(op.a);
        let mut out = [0u32; LANES];
        for lane in lanes(mask) {
            out[lane] = lanes(mask).filter(|&l| a[l] == a[lane]).fold(0, |m, l| m | 1 << l);
        }
        if op.all {
            let first = mask.trailing_zeros() as usize;
            let same = out[first] == mask;
            out = [if same { mask } else { 0 }; LANES];
            if let Some(p) = op.p {
                bool::write(&mut warp.registers, p, mask, &[same; LANES]);
            }
        }
        u32::write(&mut warp.registers, op.d, mask, &out);
        Ok(())
    }

    pub fn redux(&mut self, warp: &mut Warp, op: &Redux, mask: Mask) -> Step {
        Self::members(warp, op.members, mask)?;
        let a = warp.registers.narrow[op.a as usize];
        let fold = |x: u32, y: u32| match (op.op, op.signed) {
            (Rmw::Min, true) => (x as i32).min(y as i32) as u32,
            (Rmw::Max, true) => (x as i32).max(y as i32) as u32,
            (Rmw::Min, false) => x.min(y),
            (Rmw::Max, false) => x.max(y),
            (Rmw::And, _) => x & y,
            (Rmw::Or, _) => x | y,
            (Rmw::Xor, _) => x ^ y,
            _ => x.wrapping_add(y),
        };
        let value = lanes(mask).map(|l| a[l]).reduce(fold).unwrap_or(0);
        u32::write(&mut warp.registers, op.d, mask, &[value; LANES]);
        Ok(())
    }

    pub fn elect(
        &mut self,
        warp: &mut Warp,
        d: Option<u32>,
        p: u32,
        members: u32,
        mask: Mask,
    ) -> Step {
        Self::members(warp, members, mask)?;
        let leader = mask.trailing_zeros();
        if let Some(d) = d {
            u32::write(&mut warp.registers, d, mask, &[leader; LANES]);
        }
        let chosen = std::array::from_fn(|l| l as u32 == leader);
        bool::write(&mut warp.registers, p, mask, &chosen);
        Ok(())
    }

    pub fn warp_sync(&mut self, warp: &Warp, members: u32, mask: Mask) -> Step {
        Self::members(warp, members, mask)?;
        self.clocks.tick(warp.index);
        Ok(())
    }

    /// `bar.*`: the warp arrives, and waits unless it only arrives.
    pub fn barrier(&mut self, warp: &mut Warp, op: &Barrier, mask: Mask) -> Step<Flow> {
        Self::converged(warp, mask).map_err(|stop| {
            Stop::new(FaultKind::Divergence, format!("barrier divergence: {}", stop.message))
        })?;
        let uniform = |slot: u32| {
            let values = &warp.registers.narrow[slot as usize];
            let first = values[mask.trailing_zeros() as usize];
            match lanes(mask).find(|&l| values[l] != first) {
                None => Ok(first),
                Some(lane) => Err(Stop::at(
                    FaultKind::Divergence,
                    lane,
                    format!("barrier operand {} differs from {first} of other lanes", values[lane]),
                )),
            }
        };
        let id = uniform(op.id)?;
        let expected = op.threads.map(uniform).transpose()?;
        if id as usize >= self.barriers.len() {
            return Err(Stop::new(FaultKind::Invalid, format!("barrier {id}: there are 0 to 15")));
        }
        if let Some(n) = expected
            && (n == 0 || n % LANES as u32 != 0)
        {
            return Err(Stop::new(
                FaultKind::Invalid,
                format!("a barrier of {n} threads: expected a multiple of 32"),
            ));
        }
        let votes = op.p.map_or(0, |p| {
            let bits = warp.registers.predicates[p as usize];
            (bits & mask).count_ones()
        });
        let barrier = &mut self.barriers[id as usize];
        if barrier.arrived > 0 && barrier.expected != expected {
            let name = |n: Option<u32>| n.map_or("all threads".into(), |n| format!("{n} threads"));
            return Err(Stop::new(
                FaultKind::Divergence,
                format!(
                    "barrier {id} is waiting for {}, this warp arrives for {}",
                    name(barrier.expected),
                    name(expected)
                ),
            ));
        }
        barrier.expected = expected;
        barrier.arrived += LANES as u32;
        barrier.votes += votes;
        barrier.threads += mask.count_ones();
        if let Some(n) = expected
            && barrier.arrived > n
        {
            return Err(Stop::new(
                FaultKind::Divergence,
                format!("barrier {id} is for {n} threads, and {} have arrived", barrier.arrived),
            ));
        }
        self.clocks.release(warp.index, &mut barrier.view);
        if op.mode == BarrierMode::Arrive {
            self.complete_barrier(id as usize);
            return Ok(Flow::Next);
        }
        if op.aligned {
            let at = *barrier.at.get_or_insert(warp.pc);
            if at != warp.pc {
                let program = self.env.program;
                let line = program.sources[program.insts[at as usize].source as usize].line;
                let first = barrier.waiting[0].0;
                return Err(Stop::new(
                    FaultKind::Divergence,
                    format!(
                        "warp {first} waits for this at the barrier on line {line}: aligned barriers are one instruction"
                    ),
                ));
            }
        }
        barrier.waiting.push((warp.index, op.mode));
        self.complete_barrier(id as usize);
        Ok(Flow::WaitNext(State::Barrier { id, result: op.d }))
    }

    /// Opens barrier `id` if everyone it expects is there.
    fn complete_barrier(&mut self, id: usize) {
        let barrier = &mut self.barriers[id];
        let expected = barrier.expected.unwrap_or(self.live_warps as u32 * LANES as u32);
        if barrier.arrived == 0 || barrier.arrived < expected {
            return;
        }
        let done = std::mem::take(barrier);
        for (warp, mode) in done.waiting {
            self.clocks.join(warp, &done.view);
            self.released[warp] = Some(match mode {
                BarrierMode::Popc => done.votes,
                BarrierMode::And => u32::from(done.votes == done.threads),
                BarrierMode::Or => u32::from(done.votes > 0),
                BarrierMode::Sync | BarrierMode::Arrive => 0,
            });
        }
    }

    /// A warp is gone: barriers for all threads expect one less.
    pub fn warp_exited(&mut self) {
        for id in 0..self.barriers.len() {
            if self.barriers[id].expected.is_none() {
                self.complete_barrier(id);
            }
        }
    }
}
