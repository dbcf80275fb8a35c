//! Recordings through the systems: the loop over their samples, delays of an array, raw voltages, simulated sky.

mod delays;
mod dumps;
#[cfg(feature = "cli")]
mod fx;
mod pointings;
mod simulate;
mod simulate_raw;
#[path = "../support/mod.rs"]
mod support;
