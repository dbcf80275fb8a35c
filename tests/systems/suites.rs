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
mod device_selection;
mod grid;
mod halves;
mod integrations;
mod kurtosis;
mod multipletau;
mod plan;
mod planes;
mod quantise;
mod reorder;
mod several_gpus;
mod simulator_ops;
/// Of what programs of tests share, the part that needs the host alone.
#[allow(dead_code, reason = "each program of tests takes what it needs")]
#[path = "../support"]
mod support {
    pub use corrust_qualify::oracle;

    pub mod backend;
    pub mod conflicts;
    pub mod device;
    pub mod tier;
}
mod upchannelise;
mod van_vleck;
