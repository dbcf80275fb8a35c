//! Progress bars, on a terminal only.

use std::fmt::Write;

use console::Term;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::cli::terminal::{numbers::si, say::is_quiet};
use corrust::correlate::Shape;

/// A bar over the times of a recording, with the rate in samples and the time left.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `times` times of `shape`; `verb` names the work.
    pub fn new(verb: &'static str, shape: &Shape, times: u64) -> Self {
        Self::over(verb, (shape.inputs * shape.channels) as f64, times)
    }

    /// A bar of `times` times of `samples` samples each.
    pub fn over(verb: &'static str, samples: f64, times: u64) -> Self {
        Self::of(verb, "samples", samples, times)
    }

    /// A bar of `times` steps; each adds the given number of items, whose name is given.
    pub fn of(verb: &'static str, things: &'static str, each: f64, times: u64) -> Self {
        if is_quiet() {
            return Self(ProgressBar::hidden());
        }
        let width = Term::stderr().size().1;
        let style = ProgressStyle::with_template(template(width.into()))
            .expect("the template is well-formed")
            .with_key("rate", move |state: &ProgressState, text: &mut dyn Write| {
                let _ = text.write_str(&(si(state.per_sec() * each) + things));
            })
            .progress_chars("=> ");
        Self(ProgressBar::new(times).with_style(style).with_message(verb))
    }

    /// Shows that `times` times are done.
    pub fn set(&self, times: u64) {
        self.0.set_position(times);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Longest template that fits on a line of this many columns: one that wraps would be drawn again and again.
fn template(columns: usize) -> &'static str {
    // The longest verb is "autocorrelating", rates have up to six characters and times left three.
    match columns {
        84.. => "{msg} [{bar:30}] {percent:>3} %, {rate}/s, {eta} left",
        55.. => "{msg} {percent:>3} %, {rate}/s, {eta} left",
        25.. => "{msg} {percent:>3} %",
        6.. => "{percent:>3} %",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn lines_do_not_wrap() {
        let bar = "=".repeat(30);
        let longest = [
            ("msg", "autocorrelating"),
            ("bar:30", &bar),
            ("percent:>3", "100"),
            ("rate", "12.3 Gsamples"),
            ("eta", "99d"),
        ];
        for columns in 5..200 {
            let line = longest.iter().fold(template(columns).to_owned(), |line, (key, value)| {
                line.replace(&format!("{{{key}}}"), value)
            });
            assert!(line.len() < columns, "{columns} columns: {line:?}");
        }
    }
}
