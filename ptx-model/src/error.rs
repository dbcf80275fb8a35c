//! Errors of estimates.

/// Reason why an estimate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No chip of that name is shipped.
    #[error("unknown chip {name:?}: expected one of {known}, or a JSON file")]
    UnknownChip {
        /// Name that was asked for.
        name: String,
        /// Names of the chips that are shipped.
        known: String,
    },
    /// A chip's JSON does not say what a chip's must.
    #[error("chip {name}: {fault}")]
    BadChip {
        /// Name or path of the chip.
        name: String,
        /// Fault that was found.
        fault: String,
    },
    /// A block does not fit into a multiprocessor.
    #[error("a block does not fit into a multiprocessor of {chip}: {limit}")]
    DoesNotFit {
        /// Name of the chip.
        chip: String,
        /// Resource of which there is too little.
        limit: &'static str,
    },
    /// A launch without blocks or threads.
    #[error("a launch needs at least one block and one thread")]
    Empty,
    /// The simulator refused the launch, or the kernel made a mistake.
    #[error("{0}")]
    Simulator(String),
    /// A tool that makes machine code failed.
    #[error("{tool}: {fault}")]
    Tool {
        /// Name of the tool.
        tool: String,
        /// Message of the program.
        fault: String,
    },
}

/// Result of an estimate.
pub type Result<T> = std::result::Result<T, Error>;
