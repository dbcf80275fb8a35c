//! Samples that come over the network: `corrust serve`, and live observations.

mod counts;
mod heaps;
mod ingest;
mod observe;
mod serve;
mod service;
mod spead;
mod sums;
#[path = "../support/mod.rs"]
mod support;
mod vdif;
#[cfg(target_os = "linux")]
mod xdp;
