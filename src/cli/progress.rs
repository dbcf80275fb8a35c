//! Progress bars, on a terminal only.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use super::{check_interrupted, si};
use corrust::{Result, correlate::Shape};

/// A bar over the times of a recording, with the rate in samples and the time left.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `times` times of `shape`; `verb` says what is done with them.
    pub fn new(verb: &'static str, shape: &Shape, times: u64) -> Self {
        Self::over(verb, (shape.inputs * shape.channels) as f64, times)
    }

    /// A bar of `times` times of so many samples each.
    pub fn over(verb: &'static str, samples: f64, times: u64) -> Self {
        let style = ProgressStyle::with_template(
            "{msg} [{bar:30}] {percent:>3} %, {rate}samples/s, {eta} left",
        )
        .expect("the template is well-formed")
        .with_key("rate", move |state: &ProgressState, text: &mut dyn Write| {
            let _ = text.write_str(&si(state.per_sec() * samples));
        })
        .progress_chars("=> ");
        Self(ProgressBar::new(times).with_style(style).with_message(verb))
    }

    /// Shows that so many times are done.
    ///
    /// # Errors
    /// When the user wants the program to stop.
    pub fn set(&self, times: u64) -> Result<()> {
        self.0.set_position(times);
        check_interrupted()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
