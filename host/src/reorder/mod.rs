//! Corner turns, unpacking and delays of samples on a GPU.

mod native;
pub mod shift;

pub use native::{Native, PlaneVariant, ROW_ALIGNMENT, ToNative, ToPlanes, Variant};
