//! The implementations of the autocorrelation, by name.

use super::kernels;

kernels! {
    /// Implementation of the autocorrelation that a plan uses: on a GPU, or, of the last two, on a CPU. All of them give
    /// the same bits.
    pub enum Kernel {
        /// `auto`: on a GPU `tensor-cores` for long blocks of counts and for many lags of one group, else
        /// `packets`; on a CPU the quicker one of `counts` and `times` for photons that come as times.
        #[default]
        Auto = "auto",
        /// `bin-groups`: AutocorrelationCUDA's own form: bin groups in shared memory, an instant at a time.
        BinGroups = "bin-groups",
        /// `packets`: bin groups in shared memory, some hundred instants at a time. Least latency.
        Packets = "packets",
        /// `tensor-cores`: short bins on tensor cores, long ones from them, many instants at a time.
        /// Autocorrelations with at most 64 lags a group; the more twos divide the number of lags, the
        /// quicker. One group, of pairs of sensors or of many lags: Gram matrices.
        TensorCores = "tensor-cores",
        /// `counts`: on a CPU, bins of the counts of all instants, also where photons come as times.
        Counts = "counts",
        /// `times`: on a CPU, short bins from the arrival times of photons, long ones from counts. For few photons in
        /// many instants.
        Times = "times",
    }
}

impl Kernel {
    /// Kernels of a CPU.
    pub const OF_CPU: [Self; 2] = [Self::Counts, Self::Times];
}
