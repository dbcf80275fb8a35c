//! Spectral kurtosis.

#[cfg(not(corrust_target = "sm_90a"))]
pub mod judge;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod moments;
