//! Correlation on the CPU.
