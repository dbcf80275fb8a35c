//! The implementations of the autocorrelation on a GPU, by name.

use super::kernels;

kernels! {
    /// Implementation of the autocorrelation that a plan uses on a GPU. All of them give the same
    /// bits.
    pub enum Kernel {
        /// `auto`: `tensor-cores` for long blocks of counts and for many lags of one group, else
        /// `packets`.
        #[default]
        Auto = "auto",
        /// `bin-groups`: bin groups in shared memory, an instant at a time.
        BinGroups = "bin-groups",
        /// `packets`: bin groups in shared memory, some hundred instants at a time. Least latency.
        Packets = "packets",
        /// `tensor-cores`: short bins on tensor cores, long ones from them, many instants at a time.
        /// Autocorrelations with at most 64 lags a group; the more twos divide the number of lags, the
        /// quicker. One group, of pairs of sensors or of many lags: Gram matrices.
        TensorCores = "tensor-cores",
    }
}
