//! Complex numbers as HDF5 stores them.

use num_complex::Complex;
use rust_hdf5::{H5Type, format::messages::datatype::DatatypeMessage, types::CompoundType};

/// Complex numbers as they lie in a file.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(super) struct Number<T>(pub(super) Complex<T>);

/// A complex type whose parts have the names that UVH5 gives them.
pub(super) fn complex(part: DatatypeMessage) -> DatatypeMessage {
    let size = part.element_size();
    let members = vec![("r".into(), part.clone(), 0), ("i".into(), part, size)];
    CompoundType { members, total_size: 2 * size }.to_datatype()
}

impl<T: H5Type> H5Type for Number<T> {
    fn hdf5_type() -> DatatypeMessage {
        complex(T::hdf5_type())
    }

    fn element_size() -> usize {
        2 * T::element_size()
    }
}
