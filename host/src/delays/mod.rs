//! Delays of inputs that change with time.

/// Delays of inputs at any time.
pub trait DelayModel: Send + Sync {
    /// The delay of an input, in seconds, `seconds` after the recording's start; [`None`] where the model
    /// does not reach, or has no such input.
    fn delay(&self, input: usize, seconds: f64) -> Option<f64>;
}
