//! Figures of other programs, measured on the same model of GPU: `docs/performance.md` says how.

/// The GPU that these figures are of.
pub const DEVICE: &str = "H200";

/// ASTRON's Tensor-Core Correlator, int8: inputs, TOPS by its own count of operations.
pub const TCC_INT8: [(u64, f64); 5] =
    [(128, 427.0), (256, 476.0), (512, 508.0), (1024, 529.0), (2048, 543.0)];
/// The same, int4, at 2048 inputs: Hopper has no products of 4 bits, so that `mma` of them is emulated.
pub const TCC_INT4: (u64, f64) = (2048, 39.0);
/// The same, fp16, at 2048 inputs.
pub const TCC_FP16: (u64, f64) = (2048, 298.0);
/// The packed correlator of Klages et al. on an AMD R9 280X, two products an instruction: multiply-adds as
/// a factor of that GPU's peak rate.
pub const KLAGES_TIMES: f64 = 1.31;
/// kotekan's CHORD baseband beamformer, 512 dishes, 96 beams, 32768 times: milliseconds.
pub const KOTEKAN_MS: f64 = 1.68;
/// AutocorrelationCUDA, 1024 sensors, 10 groups of 32 lags: instants a second.
pub const AUTOCORRELATION_CUDA: f64 = 1.40e6;
