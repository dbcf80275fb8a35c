//! Benchmarks beside the nearest record.

use std::time::Duration;

use corrust::{
    Error, Result,
    bench::{
        self, Change, Limits, Meter, Place, RECORD_H100, RECORD_H200, Record, Row, Settings,
        changes, measure, model::Model,
    },
    qualify::requirements::{Finding, Verdict},
};

use crate::cli::{commands::qualify::Bar, terminal::numbers::digits};

/// Measurements of each subject that count.
const REPEATS: usize = 5;
/// Part of a time by which cards of one model may differ: two H200s were seen to by 10 %.
const CARDS: f64 = 0.12;
/// Cases of the record that a machine of the same GPU must have in common with it.
const LEAST_COMMON: usize = 10;

/// The record of a device that ships with the program, else that of an H200.
pub fn record(device: &str) -> Result<Record> {
    let read = |text| -> Result<Record> {
        serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("a shipped record: {error}")))
    };
    let h100 = read(RECORD_H100)?;
    if h100.machine.device == device { Ok(h100) } else { read(RECORD_H200) }
}

/// Measures all cases, and compares them with the record if it is of the same GPU.
pub fn check(place: &Place, meter: Option<&Meter>, bar: &Bar) -> Result<(Finding, Vec<Row>)> {
    if place.simulated() {
        let text = "the simulator counts, and its times say nothing about a GPU";
        return Ok((Finding::new(Verdict::NotDecided, text), Vec::new()));
    }
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    let unknown = Limits::default();
    let settings = |limits| Settings { repeats: REPEATS, sustain: Duration::ZERO, meter, limits };
    for case in bench::limits::cases(place) {
        bar.says(&case.label());
        rows.extend(measure(case.as_ref(), std::slice::from_ref(place), &settings(&unknown))?);
    }
    let limits = Limits::of(&rows);
    for case in bench::cases(place) {
        let label = format!("{} {}", case.system(), case.label());
        bar.says(&label);
        match measure(case.as_ref(), std::slice::from_ref(place), &settings(&limits)) {
            Ok(measured) => rows.extend(measured),
            Err(Error::OutOfMemory { .. }) => left_out.push(label),
            // A wrong answer.
            Err(error @ Error::Device(_)) => {
                return Ok((Finding::new(Verdict::Failed, error.to_string()), rows));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((judge(&rows, place, &left_out)?, rows))
}

/// Predictions of all cases for the chip that a device is, if it is known.
pub fn predictions(device: &str, bar: &Bar) -> Result<Vec<Row>> {
    let Some(chip) = Model::chip_of(device) else { return Ok(Vec::new()) };
    let place = Place::of_model(Model::open(chip)?);
    let limits = Limits::default();
    let settings = Settings { repeats: 1, sustain: Duration::ZERO, meter: None, limits: &limits };
    let mut rows = Vec::new();
    for case in bench::cases(&place) {
        bar.says(&format!("{} {}, predicted", case.system(), case.label()));
        rows.extend(measure(case.as_ref(), std::slice::from_ref(&place), &settings)?);
    }
    Ok(rows)
}

/// Compares with the record.
fn judge(rows: &[Row], place: &Place, left_out: &[String]) -> Result<Finding> {
    let device = place.gpu.as_ref().map(|gpu| gpu.facts().name.clone());
    let record = record(device.as_deref().unwrap_or_default())?;
    let mut text = format!("{} measurements, every answer right", rows.len());
    if !left_out.is_empty() {
        text += &format!("; too large for the memory here: {}", left_out.join("; "));
    }
    if device.as_ref() != Some(&record.machine.device) {
        text += &format!("; the nearest record is of another device, {}", record.machine.device);
        return Ok(Finding::new(Verdict::NotDecided, text));
    }
    let (changes, _) = changes(&record.rows, rows, false);
    // Nobody is given other kernels unasked.
    let chosen: Vec<Row> = rows.iter().filter(|row| row.auto).cloned().collect();
    let (of_auto, _) = bench::changes(&record.rows, &chosen, false);
    let slower = |change: &&Change| change.slower() && change.ratio() > 1.0 + CARDS;
    let slowest = of_auto.iter().map(Change::ratio).fold(0.0, f64::max);
    let verdict = match (of_auto.iter().filter(slower).count(), of_auto.len()) {
        (_, ..LEAST_COMMON) => Verdict::NotDecided,
        (0, _) => Verdict::Passed,
        _ => Verdict::Failed,
    };
    text += &format!(
        "; {} of kernels that auto takes compared with the record, the slowest {:+.1} %",
        of_auto.len(),
        100.0 * (slowest - 1.0)
    );
    let rows = changes
        .iter()
        .filter(|change| change.slower())
        .map(|change| {
            vec![
                change.what.clone(),
                digits(change.before.median * 1e3),
                digits(change.after.median * 1e3),
                format!("{:+.1} %", 100.0 * (change.ratio() - 1.0)),
            ]
        })
        .collect();
    Ok(Finding::new(verdict, text).with(&["slower", "record, ms", "here, ms", "change"], rows))
}

#[cfg(test)]
mod tests {
    use corrust::bench::Place;

    use super::{Bar, check, predictions, record};

    #[test]
    fn a_simulator_has_no_speed_and_a_cpu_no_chip() {
        let bar = Bar::new("speed");
        let gpu = corrust::Device::Sim.open().expect("the simulator");
        let (finding, rows) = check(&Place { gpu, ..Place::default() }, None, &bar).unwrap();
        assert!(rows.is_empty() && finding.text.contains("simulator"), "{finding:?}");
        assert!(predictions("AMD EPYC", &bar).unwrap().is_empty());
    }

    #[test]
    #[ignore = "a minute"]
    fn rows_of_a_record_are_predicted() {
        let record = record("NVIDIA H200").unwrap();
        let predicted = predictions(&record.machine.device, &Bar::new("speed")).unwrap();
        let both = record.rows.iter().filter(|row| predicted.iter().any(|one| one.is_of(row)));
        assert!(both.count() > 200);
    }
}
