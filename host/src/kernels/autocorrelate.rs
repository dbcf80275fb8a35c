//! The implementations of the autocorrelation on a GPU, by name.

use super::kernels;

kernels! {
    /// Which implementation of the autocorrelation a plan uses on a GPU. All of them give the same
    /// bits.
    pub enum Kernel {
        /// `auto`: `tensor-cores` for long blocks of counts, `bin-groups` for short ones.
        #[default]
        Auto = "auto",
        /// `bin-groups`: bin groups in shared memory, an instant at a time. Least latency.
        BinGroups = "bin-groups",
        /// `tensor-cores`: short bins on tensor cores, long ones from them, many instants at a time.
        /// Autocorrelations with at most 64 lags a group; the more twos divide the number of lags, the
        /// quicker. Pairs of sensors in one group: Gram matrices of all of them.
        TensorCores = "tensor-cores",
    }
}
