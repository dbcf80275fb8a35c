//! Recordings that come over the network: `corrust serve`.

mod counts;
mod ingest;
mod service;
mod spead;
#[path = "../support/mod.rs"]
mod support;
mod vdif;
