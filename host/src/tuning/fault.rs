//! Faults of a table's numbers.

/// The place of a value that plans cannot go by, and the reason.
pub(super) type Fault = (String, String);

/// Refuses a number that is not above 0.
pub(super) fn positive(place: String, number: f64) -> Result<(), Fault> {
    match number > 0.0 && number.is_finite() {
        true => Ok(()),
        false => Err((place, format!("found {number}, a number above 0 is needed"))),
    }
}
