//! Spectral kurtosis.

#[cfg(not(corrust_target = "sm_90a"))]
pub mod clear;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod moments;
