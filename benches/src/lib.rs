//! The benchmark harness of corrust: cases of `corrust bench` and `cargo bench`, and how they are measured.
//!
//! A [`Case`] is one size of one system. Its [`Subject`]s are compared on the same
//! data: kernels, or one kernel of two builds. [`measure`] alternates them, A B A B, checks their answers, and
//! returns a [`Row`] for each; [`Limits`] says how close each comes to the GPU's ceilings.
//!
//! | module | cases |
//! |---|---|
//! | [`limits`] | the GPU's own ceilings |
//! | [`channelise`], [`upchannelise`], [`correlate`], [`beamform`], [`grid`], [`autocorrelate`], [`reorder`] | the systems |
//! | [`tune`] | what a GPU's [table](corrust_host::tuning::Tuning) is made of |
//!
//! Times are between GPU events where the work is a GPU's; what kernels read was not read since more
//! than twice the L2 cache went by ([`Ring`]).

pub mod autocorrelate;
pub mod beamform;
pub mod channelise;
pub mod correlate;
pub mod grid;
pub mod limits;
pub mod model;
pub mod reorder;
mod size;
pub mod tune;
pub mod upchannelise;

mod case;
mod data;
mod energy;
mod fx;
mod measure;
mod predicted;
mod record;
mod spectra;

pub use case::{BenchDevice, Bound, Case, Clock, Subject, Work, kernels};
pub use data::{Ring, gaussian, locked, random_bytes, random_halves};
pub use energy::Meter;
pub use limits::Limits;
pub use measure::{Settings, measure};
pub use predicted::{model_limits, predicted};
pub use record::{Change, Facts, Record, Row, Share, Sustained, Times, built_from, changes};

use corrust_host::{Encoding, beamform::grid as beamform_grid};

/// The cases of all systems, in their usual sizes.
pub fn cases(place: &BenchDevice) -> Vec<Box<dyn Case>> {
    let correlate =
        correlate::Options { compare_at: Some(vec![256, 2048]), ..correlate::Options::default() };
    let wide = beamform::Options {
        sizes: vec![(512, 96)],
        voltages: vec![Encoding::Ci8],
        output: Encoding::Ci8,
        ..beamform::Options::default()
    };
    let grids =
        grid::Options { kernels: vec![beamform_grid::Kernel::Auto], ..grid::Options::default() };
    let all = [
        correlate::cases(&correlate, place),
        beamform::cases(&beamform::Options::default(), place),
        beamform::cases(&wide, place),
        autocorrelate::cases(&autocorrelate::Options::default(), place),
        reorder::cases(&reorder::Options::default(), place),
        channelise::cases(&channelise::Options::default(), place),
        upchannelise::cases(&upchannelise::Options::default(), place),
        grid::cases(&grids, place),
    ];
    all.into_iter().flatten().collect()
}

/// Record of an H200 by `corrust bench --json`, in JSON: [`Record`].
pub const RECORD_H200: &str = include_str!("../record/h200/all.json");

/// Record of an H100 by `corrust bench --json`, in JSON: [`Record`].
pub const RECORD_H100: &str = include_str!("../record/h100/all.json");

/// Record of other programs on an H200 by `benches/peers/run --json`, in JSON.
pub const PEERS_H200: &str = include_str!("../record/peers/h200.json");
