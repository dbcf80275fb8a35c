//! Interface of host and kernels: entry names, tile constants, launch geometry and parameter structs.
//! `build.rs` and the host compile this module; device code reads it too.
//!
//! Every kernel takes one `#[repr(C)]` struct by value, without padding, whose addresses are `u64`.

pub mod autocorrelate;
pub mod beamform;
pub mod channelise;
pub mod correlate;
mod entry;
pub mod grid;
pub mod grid_mma;
pub mod kurtosis;
pub mod limits;
pub mod reorder;
pub mod shared;
pub mod upchannelise;

pub use entry::{Entry, Field, Kernel, Parameters, Target};

/// Entries of every module.
const MODULES: &[&[&[Entry]]] = &[
    autocorrelate::ENTRIES,
    beamform::ENTRIES,
    channelise::ENTRIES,
    correlate::ENTRIES,
    grid::ENTRIES,
    grid_mma::ENTRIES,
    kurtosis::ENTRIES,
    limits::ENTRIES,
    reorder::ENTRIES,
    upchannelise::ENTRIES,
];

/// Every kernel.
pub const ENTRIES: &[Entry] = &{
    let mut entries = [MODULES[0][0][0]; count()];
    let (mut module, mut next) = (0, 0);
    while module < MODULES.len() {
        let mut list = 0;
        while list < MODULES[module].len() {
            let mut entry = 0;
            while entry < MODULES[module][list].len() {
                entries[next] = MODULES[module][list][entry];
                (entry, next) = (entry + 1, next + 1);
            }
            list += 1;
        }
        module += 1;
    }
    entries
};

/// Entries of all modules.
const fn count() -> usize {
    let (mut module, mut count) = (0, 0);
    while module < MODULES.len() {
        let mut list = 0;
        while list < MODULES[module].len() {
            count += MODULES[module][list].len();
            list += 1;
        }
        module += 1;
    }
    count
}
