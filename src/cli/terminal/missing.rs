//! Samples that are missing, as fractions of all by cause: one sentence for every command.

use super::numbers::digits;

/// Samples that never came, or were lost on their way.
pub const LOST: &str = "lost";
/// Samples before the recording's first, which shifts ask for.
pub const BEFORE: &str = "before the start";
/// Samples that never came, and those beyond the recording's ends, which delays ask for.
pub const LOST_OR_BEYOND: &str = "lost, or beyond the recording's ends for delays";
/// Samples that never came or were flagged, where flags were not counted for these samples alone.
pub const LOST_OR_FLAGGED: &str = "lost or flagged";
/// Samples flagged as RFI.
pub const FLAGGED: &str = "flagged";

/// The fraction of `all` samples that is missing, and its parts by cause, as in "2.1 % of the samples are missing (1.7 %
/// flagged, 0.4 % lost)".
pub fn fractions(all: f64, causes: &[(&str, f64)]) -> String {
    let percent = |samples: f64| {
        let share = 100.0 * samples / all.max(1.0);
        match share {
            // As not all are.
            99.95.. if samples < all => "more than 99.9 %".to_owned(),
            share => format!("{} %", digits(share)),
        }
    };
    let missing: f64 = causes.iter().map(|(_, samples)| samples).sum();
    let parts = causes.iter().filter(|(_, samples)| *samples > 0.0);
    let parts: Vec<_> =
        parts.map(|(cause, samples)| format!("{} {cause}", percent(*samples))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{} of the samples are missing{parts}", percent(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_fractions_of_all_samples() {
        let said = fractions(1000.0, &[(LOST, 4.0), (BEFORE, 0.0), (FLAGGED, 17.0)]);
        assert_eq!(said, "2.10 % of the samples are missing (0.400 % lost, 1.70 % flagged)");
        assert_eq!(fractions(1e6, &[(LOST, 0.0)]), "0 % of the samples are missing");
        let said = fractions(1e14, &[(LOST, 1e14 - 8.0)]);
        assert!(said.starts_with("more than 99.9 % of the samples are missing"), "{said}");
    }
}
