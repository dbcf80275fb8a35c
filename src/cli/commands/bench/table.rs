//! Results for people.

use corrust::bench::{Facts, Row};

use crate::cli::{
    options::units::Seconds,
    terminal::{
        numbers::{digits, si},
        say::say,
    },
};

/// Says what a record was made on.
pub fn machine(facts: &Facts) {
    say(describe(facts));
}

/// A machine in a line: device, driver, power limit, clock, date, commit.
pub fn describe(facts: &Facts) -> String {
    let mut parts = vec![facts.device.clone()];
    if let Some(multiprocessors) = facts.multiprocessors {
        parts.push(format!("{multiprocessors} SMs"));
    }
    if let Some(clock) = facts.max_sm_mhz {
        parts.push(format!("{clock} MHz"));
    }
    if let Some(limit) = facts.power_limit {
        parts.push(format!("{limit:.0} W"));
    }
    if let Some(driver) = &facts.driver {
        parts.push(format!("driver {driver}"));
    }
    let date = facts.date.split('T').next().unwrap_or_default();
    parts.push(date.to_owned());
    parts.push(format!("commit {}", facts.commit));
    parts.join(", ")
}

/// Rate of a row in the unit that users count: `335 M instants/s`.
pub fn per_second(row: &Row) -> String {
    format!("{} {}/s", si(row.items_per_second).trim_end(), row.item)
}

/// System whose rows have a share of real time.
const BEAMFORM: &str = "beamform";

/// Time from a sample to the next of CHORD's beamformer, from the rates of eq. 34 of Smith, "CHORD 8-bit baseband
/// beamformer".
pub const CHORD_SAMPLE_TIME: &str = "1.7067us";

/// A table that is printed row by row, with a heading where a system begins.
pub struct Table {
    system: String,
    case: String,
    /// Seconds from a time to the next: the beamformer's rows say which part of them a time takes.
    sample_time: f64,
}

impl Table {
    /// An empty table, with the share of real time where times of beams are `sample_time` apart.
    pub fn new(sample_time: Seconds) -> Self {
        Self { system: String::new(), case: String::new(), sample_time: sample_time.0 }
    }

    /// Prints a row.
    pub fn row(&mut self, row: &Row) {
        if row.system != self.system {
            self.system = row.system.clone();
            heading(&row.system);
        }
        // A case is named once.
        let case = if row.case == self.case { "" } else { row.case.as_str() };
        self.case = row.case.clone();
        let some = |value: f64| if value > 0.0 { digits(value) } else { "-".to_owned() };
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), some);
        let rounded = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.0}"));
        let kernel = match &row.build {
            Some(_) => format!("{} (other)", row.kernel),
            None => row.kernel.clone(),
        };
        let is_limit = row.system == corrust::bench::limits::SYSTEM;
        let rate = match is_limit {
            true => String::new(),
            false => per_second(row),
        };
        let limit = row.limit.as_ref().map_or("-".to_owned(), |limit| {
            format!("{:.0} % of {}", 100.0 * limit.share, limit.limit)
        });
        let sustained = row.sustained.as_ref();
        let spread = match row.seconds.is_predicted() {
            // The range is as far to either side, as a ratio.
            true => format!("x{:.2}", row.seconds.most / row.seconds.median),
            false => format!("{:.1}%", 100.0 * row.seconds.spread()),
        };
        let real_time = match row.system == BEAMFORM {
            true => format!("  {:>14}", digits(100.0 / (row.items_per_second * self.sample_time))),
            false => String::new(),
        };
        say(format_args!(
            "{case:<34} {kernel:<21} {:<9} {:>9} {spread:>6} {:>7} {:>7} {rate:>18}  {limit:<21} {:>4} \
             {:>6} {:>4}{real_time}",
            row.what,
            digits(row.seconds.median * 1e3),
            some(row.useful_tops),
            some(row.gigabytes_per_second),
            rounded(sustained.and_then(|sustained| sustained.watts)),
            optional(sustained.and_then(|sustained| sustained.useful_tops_per_watt)),
            rounded(sustained.and_then(|sustained| sustained.sm_mhz)),
        ));
        if let Some(sustained) = sustained.filter(|_| is_limit) {
            let bytes = row.bytes / sustained.seconds * 1e-9;
            say(format_args!(
                "{:<34} {:<21} {:<9} {:>9} {:>6} {:>7} {:>7}",
                "",
                "",
                "sustained",
                digits(sustained.seconds * 1e3),
                "",
                some(sustained.useful_tops),
                some(bytes)
            ));
        }
    }
}

/// Prints the names of the columns of a system.
fn heading(system: &str) {
    let real_time = if system == BEAMFORM { "  % of real time" } else { "" };
    say(format_args!(
        "\n{system:<34} {:<21} {:<9} {:>9} {:>6} {:>7} {:>7} {:>18}  {:<21} {:>4} {:>6} {:>4}{real_time}",
        "kernel", "what", "ms", "spread", "TOPS", "GB/s", "", "limit", "W", "TOPS/W", "MHz"
    ));
}
