//! Every system - correlator, beamformer, F-engine, autocorrelator - by every kernel on every backend, against plain loops.

mod autocorrelate;
mod autocorrelate_errors;
mod autocorrelate_pairs;
mod autocorrelate_wide;
mod beamform;
mod bits;
mod channelise;
mod channelise_gpu;
mod conformance;
mod delays;
mod device_selection;
mod dumps;
#[cfg(feature = "cli")]
mod fx;
mod grid;
mod halves;
mod integrations;
mod kurtosis;
mod multipletau;
mod plan;
mod planes;
mod quantise;
mod reorder;
#[cfg(feature = "cli")]
mod several_gpus;
mod simulate;
mod simulate_raw;
mod simulator_ops;
#[path = "../support/mod.rs"]
mod support;
mod upchannelise;
mod van_vleck;
