//! A ring of stages of shared memory that `cp.async` fills while an earlier one is multiplied (sm_80 and later).
//!
//! ```text
//! multiply step s        | stage s % STAGES
//! on their way           | steps s + 1 to s + STAGES - 2
//! load step s + STAGES-1 | the stage before that of step s, which was multiplied last: it is free
//! ```
//!
//! There are no roles, as in [`pipeline`](super::pipeline): the threads that copy a stage are those that multiply it, a
//! block or a warp. A thread waits for its own copies, and a barrier for everyone's. That barrier also ends the
//! multiplication of the step before, so that one barrier a step is enough.
//!
//! A thread closes one group of copies each step, an empty one behind the last step, so that the number of groups that may
//! be under way while a step is multiplied is the same constant in every step: `STAGES - 2`.
//!
//! A kernel defines its stages ([`Shape`]) and what is done with them ([`Work`]); [`run`] is the loop. A kernel that copies
//! between the products of a step, or loads a step's first operands during the step before, writes its loop itself, around
//! [`Ring`].

use core::marker::PhantomData;

use crate::isa::{
    common::opaque,
    sm_80::{cp_async_commit, cp_async_wait},
};

/// Stages of a ring, and the threads that share it.
pub trait Shape {
    /// Number of stages, 2 to 8.
    const STAGES: u32;
    /// Bytes of a stage, a multiple of 16.
    const STAGE_BYTES: u32;

    /// Waits for all threads that share the ring: the barrier of a block or of a warp. What they stored or copied to
    /// shared memory before, and waited for, is visible to all of them behind it.
    fn barrier();
}

/// Place in a ring of stages: a step, and its stage.
pub struct Ring<S> {
    /// Number of the step.
    pub step: u32,
    /// Bytes from the ring's first stage to that of the step.
    pub stage: u32,
    /// The same of the step before.
    before: u32,
    shape: PhantomData<S>,
}

/// Stages of a step, in bytes from the first of the ring.
#[derive(Clone, Copy)]
pub struct Stages {
    /// Stage of the step.
    pub now: u32,
    /// Stage of the next step.
    pub next: u32,
    /// Stage of the step before, which is free: step [`Ring::ahead`] is copied there.
    pub free: u32,
}

impl<S: Shape> Ring<S> {
    /// Steps that are copied before the first is multiplied.
    pub const AHEAD: u32 = S::STAGES - 1;

    /// The first step.
    pub const START: Self =
        Self { step: 0, stage: 0, before: Self::AHEAD * S::STAGE_BYTES, shape: PhantomData };

    /// Returns the number of the step that is copied while this one is multiplied.
    #[inline(always)]
    pub fn ahead(&self) -> u32 {
        self.step + Self::AHEAD
    }

    /// Returns the stages of the step.
    #[inline(always)]
    pub fn stages(&self) -> Stages {
        let last = Self::AHEAD * S::STAGE_BYTES;
        Stages {
            now: self.stage,
            next: if self.stage == last { 0 } else { self.stage + S::STAGE_BYTES },
            free: self.before,
        }
    }

    /// Returns the stages of the step `index` of a lap of [`Shape::STAGES`] steps that begins in the first stage: constants,
    /// if `index` is one.
    #[inline(always)]
    pub fn of_lap(index: u32) -> Stages {
        let stage = |after: u32| (index + after) % S::STAGES * S::STAGE_BYTES;
        Stages { now: stage(0), next: stage(1), free: stage(Self::AHEAD) }
    }

    /// Advances to the next step.
    #[inline(always)]
    pub fn advance(&mut self) {
        (self.stage, self.before) = (self.stages().next, self.stage);
        self.step += 1;
    }

    /// Waits till the thread's groups of copies have come but for those of the last `STAGES - 2` steps.
    #[inline(always)]
    fn wait_own() {
        const { assert!(S::STAGES >= 2 && S::STAGES <= 8, "a number of groups for each") };
        // The instruction has the number as a constant, which a type cannot hand on.
        match S::STAGES {
            2 => cp_async_wait::<0>(),
            3 => cp_async_wait::<1>(),
            4 => cp_async_wait::<2>(),
            5 => cp_async_wait::<3>(),
            6 => cp_async_wait::<4>(),
            7 => cp_async_wait::<5>(),
            _ => cp_async_wait::<6>(),
        }
    }

    /// Waits till the next step's stage is full, and all threads have done with the step before it.
    ///
    /// # Safety
    /// - All threads that share the ring call it together, once for each step, in the order of steps.
    /// - Before it waits for step `s`, each has closed a group of copies ([`cp_async_commit`]) for every step up to
    ///   `s + STAGES - 2`, in order; an empty group stands for a step that does not exist.
    /// - Each has read what it needs of the steps before `s`: its loads from their stages have returned.
    #[inline(always)]
    pub unsafe fn wait() {
        Self::wait_own();
        S::barrier();
    }
}

/// Work of a block or of a warp on the steps of a ring.
pub trait Work: Shape {
    /// Number of steps.
    fn steps(&self) -> u32;

    /// Starts the copies of step `step` to the stage that lies `stage` bytes from the first: the thread's share of them.
    /// Steps come in order, each once.
    ///
    /// # Safety
    /// - All threads that share the ring call it together, with the same arguments.
    /// - `step` is below [`steps`](Self::steps), and `stage` that of a step of this ring, which nobody reads any more.
    unsafe fn load(&mut self, step: u32, stage: u32);

    /// Loads to registers what the products of `step` need beside its stage, while the stage is on its way: nothing, if
    /// a kernel does not say otherwise.
    ///
    /// # Safety
    /// - All threads that share the ring call it together, with the same `step`, before [`multiply`](Self::multiply).
    #[inline(always)]
    unsafe fn prepare(&mut self, _step: u32) {}

    /// Multiplies step `step`, which lies `stage` bytes from the first stage.
    ///
    /// # Safety
    /// - All threads that share the ring call it together, with the same arguments, step after step.
    /// - The stage is full: its copies have come, and are visible to all these threads.
    /// - When it returns, the thread's loads from the stage have returned.
    unsafe fn multiply(&mut self, step: u32, stage: u32);
}

/// Loads, waits for, and multiplies all steps of `work`.
///
/// No copy is under way when it returns. Other threads may still multiply the last step.
///
/// # Safety
/// - All threads that share the ring call it together, with the same number of steps. None has copies under way.
/// - The ring's `STAGES * STAGE_BYTES` bytes of shared memory are free.
/// - `work` may load, prepare and multiply its steps: what its own type asks for beside the trait's conditions is met.
#[inline(always)]
pub unsafe fn run<W: Work>(work: &mut W) {
    let steps = work.steps();
    // SAFETY: stages are loaded in order. Before the first is multiplied nobody has read any; later ones are loaded behind
    // a barrier that follows the last reads of the stage. Every thread closes a group each step.
    unsafe {
        let mut first = 0;
        while first < opaque(Ring::<W>::AHEAD) {
            if first < steps {
                work.load(first, first * W::STAGE_BYTES);
            }
            cp_async_commit();
            first += 1;
        }
        let mut ring = Ring::<W>::START;
        while ring.step < steps {
            work.prepare(ring.step);
            Ring::<W>::wait();
            if ring.ahead() < steps {
                work.load(ring.ahead(), ring.stages().free);
            }
            cp_async_commit();
            work.multiply(ring.step, ring.stage);
            ring.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ring, Shape};

    const BYTES: u32 = 48;

    struct Of<const STAGES: u32>;

    impl<const STAGES: u32> Shape for Of<STAGES> {
        const STAGES: u32 = STAGES;
        const STAGE_BYTES: u32 = BYTES;

        fn barrier() {}
    }

    /// Follows a ring for several laps beside the steps that its stages hold.
    fn follow<const STAGES: u32>() {
        let mut held = [None; 8];
        let ahead = Ring::<Of<STAGES>>::AHEAD;
        assert_eq!(ahead, STAGES - 1);
        for step in 0..ahead {
            held[step as usize] = Some(step);
        }
        let mut ring = Ring::<Of<STAGES>>::START;
        for step in 0..5 * STAGES + 1 {
            let stages = ring.stages();
            let of_lap = Ring::<Of<STAGES>>::of_lap(step % STAGES);
            let offsets = [stages.now, stages.next, stages.free];
            assert_eq!(
                offsets,
                [of_lap.now, of_lap.next, of_lap.free],
                "{STAGES} stages, step {step}"
            );
            assert!(offsets.iter().all(|at| at % BYTES == 0 && at / BYTES < STAGES));
            assert_eq!((ring.step, ring.stage), (step, stages.now));

            let [now, next, free] = offsets.map(|at| (at / BYTES) as usize);
            // The free stage held the step before, in the first step of all nothing.
            assert_eq!(held[free], step.checked_sub(1), "{STAGES} stages, step {step}");
            held[free] = Some(ring.ahead());
            assert_eq!(ring.ahead(), step + STAGES - 1);
            assert_eq!((held[now], held[next]), (Some(step), Some(step + 1)));
            ring.advance();
        }
    }

    #[test]
    fn a_stage_is_filled_again_after_its_step_and_before_it_is_needed() {
        follow::<2>();
        follow::<3>();
        follow::<4>();
        follow::<5>();
        follow::<6>();
        follow::<7>();
        follow::<8>();
    }
}
