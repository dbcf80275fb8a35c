//! Errors: in the text, at the launch, or while a kernel runs.

use std::fmt;

/// Everything this crate reports instead of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not PTX as this crate reads it.
    #[error("PTX line {line}: {message}")]
    Syntax {
        /// Line in the PTX text, from 1.
        line: u32,
        /// Reason: found and expected.
        message: String,
    },
    /// An instruction, modifier or operand form that the simulator does not know.
    #[error("PTX line {line}: `{}`: {message}", brief(instruction))]
    Unsupported {
        /// Line in the PTX text, from 1.
        line: u32,
        /// The instruction as written.
        instruction: String,
        /// The part that is unknown.
        message: String,
    },
    /// The launch itself is impossible.
    #[error("launch of {entry}: {message}")]
    Launch {
        /// The entry that was asked for.
        entry: String,
        /// Reason: found and expected.
        message: String,
    },
    /// The host asked for device memory that is not there.
    #[error("device memory: {0}")]
    Memory(String),
    /// A crate's kernels could not be compiled.
    #[error("{0}")]
    Build(String),
    /// A kernel did something that hardware would answer with a fault or a wrong result.
    #[error("{0}")]
    Fault(Box<Fault>),
}

/// A kernel's mistake, and where it made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of mistake.
    pub kind: FaultKind,
    /// The entry that ran.
    pub kernel: String,
    /// Block index in the grid, x y z.
    pub block: [u32; 3],
    /// Warp of the block.
    pub warp: u32,
    /// Lane of the warp, where one lane is to blame.
    pub lane: Option<u32>,
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// File and line of the source that the PTX was made of, where `.loc` directives tell.
    pub origin: Option<String>,
    /// The instruction as written.
    pub instruction: String,
    /// The mistake in one sentence.
    pub message: String,
}

/// Kinds of mistakes that a run can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An access outside of every allocation, of shared memory, or of the local frame.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// A read of shared memory that nothing wrote.
    Uninitialised,
    /// Two accesses to the same shared bytes, one of them a write, with nothing that orders them.
    Race,
    /// A read of the result of an asynchronous instruction before the wait that makes it visible.
    MissingWait,
    /// A barrier or `.aligned` instruction that not all of its threads reach together.
    Divergence,
    /// Every warp that is left waits for something that no other warp will do.
    Deadlock,
    /// `trap`, or the limit on instructions was reached.
    Trap,
    /// Operands that the instruction does not allow.
    Invalid,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "{}: block ({x}, {y}, {z}), warp {}", self.kernel, self.warp)?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
        }
        write!(f, ", PTX line {}", self.line)?;
        if let Some(origin) = &self.origin {
            write!(f, " ({origin})")?;
        }
        write!(f, " `{}`: {}", brief(&self.instruction), self.message)
    }
}

/// An instruction as messages quote it: lists of registers can be hundreds long.
pub(crate) fn brief(text: &str) -> String {
    const LENGTH: usize = 100;
    match text.char_indices().nth(LENGTH) {
        Some((at, _)) => format!("{} ...", &text[..at]),
        None => text.to_owned(),
    }
}

/// A fault before the interpreter adds where it happened.
#[derive(Debug)]
pub(crate) struct Stop {
    pub kind: FaultKind,
    pub lane: Option<u32>,
    pub message: String,
}

impl Stop {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { kind, lane: None, message: message.into() })
    }

    pub fn at(kind: FaultKind, lane: usize, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { kind, lane: Some(lane as u32), message: message.into() })
    }
}

/// Outcome of one instruction.
pub(crate) type Step<T = ()> = Result<T, Box<Stop>>;
