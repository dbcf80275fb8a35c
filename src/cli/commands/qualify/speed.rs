//! Benchmarks beside the nearest record.

use std::{slice, time::Duration};

use corrust::{
    Error, Result,
    bench::{
        self, BenchDevice, Limits, Meter, RECORD_H100, RECORD_H200, Record, Row, Settings, changes,
        measure, model::Model,
    },
    qualify::requirements::{Finding, Verdict},
};

use crate::cli::{commands::qualify::Bar, terminal::numbers::digits};

/// Measurements of each subject that count.
const REPEATS: usize = 5;
/// Part of a time by which cards of one model may differ: two H200s were seen to by 10 %.
const CARDS: f64 = 0.12;
/// The same where the host's clock measures: copies from pageable memory of two hosts of an H200 were seen to differ by 22 %.
const HOSTS: f64 = 0.35;
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
pub fn check(place: &BenchDevice, meter: Option<&Meter>, bar: &Bar) -> Result<(Finding, Vec<Row>)> {
    if place.simulated() {
        let text = "the simulator counts, and its times say nothing about a GPU";
        return Ok((Finding::new(Verdict::NotDecided, text), Vec::new()));
    }
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    let unknown = Limits::default();
    let settings = |limits| Settings { repeats: REPEATS, sustain: Duration::ZERO, meter, limits };
    let stopped = |rows: Vec<Row>| {
        let text = format!("stopped after {} measurements, every answer right", rows.len());
        Ok((Finding::new(Verdict::NotDecided, text), rows))
    };
    for case in bench::limits::cases(place) {
        if bar.is_over() {
            return stopped(rows);
        }
        bar.says(&case.label());
        rows.extend(measure(case.as_ref(), slice::from_ref(place), &settings(&unknown))?);
    }
    let limits = Limits::of(&rows);
    for case in bench::cases(place) {
        let label = format!("{} {}", case.system(), case.label());
        if bar.is_over() {
            return stopped(rows);
        }
        bar.says(&label);
        match measure(case.as_ref(), slice::from_ref(place), &settings(&limits)) {
            Ok(measured) => rows.extend(measured),
            Err(Error::OutOfMemory { .. }) => left_out.push(label),
            // A wrong answer.
            Err(error @ Error::Device(_)) => {
                return Ok((Finding::new(Verdict::Failed, error.to_string()), rows));
            }
            Err(error) => return Err(error),
        }
    }
    let device = place.gpu.as_ref().map(|gpu| gpu.facts().name.clone());
    Ok((judge(&rows, device.as_deref(), &left_out)?, rows))
}

/// Predictions of all cases for the chip that a device is, if it is known, and as far as the time reaches.
pub fn predictions(device: &str, bar: &Bar) -> Result<Vec<Row>> {
    let Some(chip) = Model::chip_of(device) else { return Ok(Vec::new()) };
    let place = BenchDevice::of_model(Model::open(chip)?);
    let limits = Limits::default();
    let settings = Settings { repeats: 1, sustain: Duration::ZERO, meter: None, limits: &limits };
    let mut rows = Vec::new();
    for case in bench::cases(&place) {
        if bar.is_over() {
            break;
        }
        bar.says(&format!("{} {}, predicted", case.system(), case.label()));
        rows.extend(measure(case.as_ref(), slice::from_ref(&place), &settings)?);
    }
    Ok(rows)
}

/// A case of a record, measured again.
struct Compared {
    /// Its time here by the record's, both in units of the time that the limit of the case takes in the same run.
    ratio: f64,
    is_slower: bool,
}

/// Compares the cases that a record and a run share: a card that clocks lower, and a host whose bus is slower, are held to their own
/// limits. Times of the host's clock for which no limit is measured are left out.
fn compared(record: &[Row], rows: &[Row]) -> Vec<Compared> {
    let of_one = |before: &Row| -> Option<Compared> {
        let after = rows.iter().find(|row| row.is_of(before))?;
        let change = changes(slice::from_ref(before), slice::from_ref(after), false).0.pop()?;
        let ratio = match (&before.limit, &after.limit) {
            (Some(theirs), Some(ours)) if theirs.limit == ours.limit => theirs.share / ours.share,
            _ if before.host_clock => return None,
            _ => change.ratio(),
        };
        let most = 1.0 + if before.host_clock { HOSTS } else { CARDS };
        Some(Compared { is_slower: change.slower() && ratio > most, ratio })
    };
    record.iter().filter_map(of_one).collect()
}

/// Compares with the record.
fn judge(rows: &[Row], device: Option<&str>, left_out: &[String]) -> Result<Finding> {
    let record = record(device.unwrap_or_default())?;
    let mut text = format!("{} measurements, every answer right", rows.len());
    if !left_out.is_empty() {
        text += &format!("; too large for the memory here: {}", left_out.join("; "));
    }
    if device != Some(&*record.machine.device) {
        text += &format!("; the nearest record is of another device, {}", record.machine.device);
        return Ok(Finding::new(Verdict::NotDecided, text));
    }
    // Users get other kernels only on request.
    let chosen: Vec<Row> = rows.iter().filter(|row| row.auto).cloned().collect();
    let compared = compared(&record.rows, &chosen);
    let slowest = compared.iter().map(|case| case.ratio).fold(0.0, f64::max);
    let verdict = match (compared.iter().filter(|case| case.is_slower).count(), compared.len()) {
        (_, ..LEAST_COMMON) => Verdict::NotDecided,
        (0, _) => Verdict::Passed,
        _ => Verdict::Failed,
    };
    text += &format!(
        "; {} of kernels that auto takes compared with the record, each by its share of the limit measured in the same run, \
         the slowest {:+.1} %",
        compared.len(),
        100.0 * (slowest - 1.0)
    );
    let (changes, _) = changes(&record.rows, rows, false);
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
    use corrust::bench::{BenchDevice, Row};

    use super::{Bar, Verdict, check, judge, predictions, record};

    /// Lengthens a row's times.
    fn slow(row: &mut Row, by: f64) {
        let times = &mut row.seconds;
        for time in [
            &mut times.median,
            &mut times.lower,
            &mut times.upper,
            &mut times.least,
            &mut times.most,
        ] {
            *time *= by;
        }
    }

    /// Verdict on the rows of the H200's record after a change.
    fn verdict(change: impl Fn(&mut Row)) -> Verdict {
        let mut record = record("NVIDIA H200").unwrap();
        record.rows.iter_mut().for_each(change);
        judge(&record.rows, Some("NVIDIA H200"), &[]).unwrap().verdict
    }

    #[test]
    fn a_card_is_held_to_its_own_limits() {
        assert_eq!(verdict(|_| {}), Verdict::Passed);
        // A card of lower clocks: all takes longer, and the same shares of its limits.
        assert_eq!(verdict(|row| slow(row, 1.1)), Verdict::Passed);
        let longer = |row: &mut Row| {
            if row.limit.is_some() {
                slow(row, 1.5);
            }
        };
        assert_eq!(verdict(longer), Verdict::Passed);
        // A slower kernel on a card like the record's.
        let slower = |row: &mut Row, by: f64| {
            slow(row, by);
            row.limit.iter_mut().for_each(|limit| limit.share /= by);
        };
        assert_eq!(
            verdict(|row| if !row.host_clock {
                slower(row, 1.2)
            }),
            Verdict::Failed
        );
        // Copies from memory that is not page-locked differ by the host.
        assert_eq!(
            verdict(|row| if row.host_clock {
                slower(row, 1.22)
            }),
            Verdict::Passed
        );
        assert_eq!(
            verdict(|row| if row.host_clock {
                slower(row, 1.6)
            }),
            Verdict::Failed
        );
    }

    #[test]
    fn a_simulator_has_no_speed_and_a_cpu_no_chip() {
        let bar = Bar::new("speed");
        let gpu = Some(corrust::Device::Sim.open().expect("the simulator"));
        let (finding, rows) =
            check(&BenchDevice { gpu, ..BenchDevice::default() }, None, &bar).unwrap();
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
