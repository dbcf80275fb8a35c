//! Delays of inputs, as the F-engine asks for them.

/// Delays of inputs at any time.
pub trait DelayModel: Send + Sync {
    /// The delay of an input, in seconds, `seconds` after the recording's start; [`None`] where the model
    /// does not reach, or has no such input.
    fn delay(&self, input: usize, seconds: f64) -> Option<f64>;

    /// Upper bound of the absolute delay of an input, in seconds; infinite where unknown.
    fn longest(&self, _input: usize) -> f64 {
        f64::INFINITY
    }
}
