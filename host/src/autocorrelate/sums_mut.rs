//! Sums that stay in a GPU's memory.

use crate::device::memory::DeviceSliceMut;

/// Room on a GPU for the sums of a stream.
#[derive(Debug)]
pub struct SumsMut<'a> {
    /// For `A`, `[row][point]`.
    pub products: DeviceSliceMut<'a, u64>,
    /// For the sums of all counts, `[row][2]`, of the sensor that is not delayed and of the one that is, if
    /// they are wanted.
    pub totals: Option<DeviceSliceMut<'a, u64>>,
}

impl<'a> From<DeviceSliceMut<'a, u64>> for SumsMut<'a> {
    fn from(products: DeviceSliceMut<'a, u64>) -> Self {
        Self { products, totals: None }
    }
}
