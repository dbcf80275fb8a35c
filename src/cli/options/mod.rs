//! Options that several commands share.

pub mod device;
pub mod engine;
pub mod files;
pub mod flagging;
pub mod given;
pub mod kernels;
#[cfg(feature = "serve")]
pub mod listening;
pub mod run_files;
pub mod selection;
pub mod stream;
pub mod units;
