//! The terminal: lines, numbers, progress bars, signals.

pub mod missing;
pub mod numbers;
pub mod progress;
pub mod say;
pub mod signals;
