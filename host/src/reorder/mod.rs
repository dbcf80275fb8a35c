//! Corner turns, unpacking and delays of samples on a GPU.

pub(crate) mod native;
pub mod place;
pub(crate) mod planes;
mod prepared;
pub mod shift;

pub use native::{Native, ROW_ALIGNMENT, ToNative};
pub use planes::ToPlanes;
pub use prepared::Prepared;
