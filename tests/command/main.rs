//! The command `corrust`, from the outside; its documents, and rules of the sources.

mod audit;
mod beamform;
mod bench;
mod bench_cases;
mod channelise;
mod delays;
mod determinism;
mod documents;
mod fcs;
mod files;
mod filterbank;
mod fit;
mod flagging;
mod fx;
mod grid;
mod images;
mod info;
mod losses;
mod observe;
mod plan;
mod planes;
mod plot;
mod qualify;
mod quantise;
mod report;
mod run;
mod selection;
mod several_gpus;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tuning;
mod upchannelise;
