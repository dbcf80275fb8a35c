//! The table of a record in a Markdown page, docs/performance.md for one.

use std::path::Path;

use corrust::{
    Error, Result,
    bench::{Record, Row},
    format::{PartialFile, read_text},
};

use crate::cli::commands::bench::{
    peers::{self, Measured, Peers},
    table,
};
use crate::cli::terminal::numbers::digits;

const BEGIN: &str = "<!-- bench -->\n";
const END: &str = "<!-- /bench -->";

/// Page with a place for the table.
pub struct Page<'a> {
    path: &'a Path,
    before: String,
    after: String,
}

impl<'a> Page<'a> {
    /// Reads the page at `path`.
    pub fn read(path: &'a Path) -> Result<Self> {
        let text = read_text(path)?;
        let parts = text
            .split_once(BEGIN)
            .and_then(|(before, rest)| rest.split_once(END).map(|(_, after)| (before, after)));
        let Some((before, after)) = parts else {
            return Err(Error::file(
                path,
                format!("expected the lines {} and {END}, found none", BEGIN.trim()),
            ));
        };
        Ok(Self { path, before: before.to_owned(), after: after.to_owned() })
    }

    /// Writes the page with the table of `record`.
    pub fn redraw(&self, record: &Record) -> Result<()> {
        let section = section(record).map_err(|missing| {
            Error::file(
                self.path,
                format!(
                    "is left as it is: no results of {missing}, expected all \
                                            that its table shows"
                ),
            )
        })?;
        let mut file = PartialFile::create(self.path)?;
        for part in [&self.before, BEGIN, &section, END, &self.after] {
            file.append(part.as_bytes())?;
        }
        file.finish()
    }
}

/// A line of the table: what, which rows, which figure of `auto`'s or the quickest, the peer's.
type Line<'a> = (&'a str, &'a dyn Fn(&Row) -> bool, &'a dyn Fn(&Row) -> String, String);

/// The table with what it was measured on, or a line of it that was not.
fn section(record: &Record) -> Result<String, String> {
    let mut text = format!(
        "On one {}, kernel alone, answers checked in the same run:\n\n\
         | | corrust | of the chip's limit | sustained | peer |\n|---|---|---|---|---|\n",
        table::describe(&record.machine)
    );
    let measured = record.rows.iter().filter(|row| row.build.is_none() && row.what == "kernel");
    let measured: Vec<&Row> = measured.collect();
    let mut add = |(what, rows, figure, peer): Line<'_>| {
        let rows = measured.iter().filter(|row| rows(row));
        // The kernel of `auto` is the one that users get, and that was sustained.
        let first = rows
            .min_by(|a, b| b.auto.cmp(&a.auto).then(a.seconds.median.total_cmp(&b.seconds.median)));
        let row = first.ok_or(what)?;
        let (limit, efficiency) = (limit(row), efficiency(row));
        text += &format!("| {what} | {} | {limit} | {efficiency} | {peer} |\n", figure(row));
        Ok::<_, String>(())
    };
    correlator_lines(record, &mut add)?;
    other_lines(record, &mut add)?;
    Ok(text)
}

/// A figure of a peer's case on the record's model of GPU; empty where it was not measured. `sizes` choose among sizes of
/// the case, and the first is taken.
fn peer(
    record: &Record,
    (name, case): (&str, &str),
    sizes: &[(&str, u64)],
    text: impl Fn(&Measured) -> String,
) -> String {
    let results = Peers::of(&record.machine.device).map(|peers| peers.results(name, case));
    let mut like = results
        .into_iter()
        .flatten()
        .filter(|measured| sizes.iter().all(|&(size, value)| measured.size(size) == value));
    like.next().map(text).unwrap_or_default()
}

/// The lines of the correlator, each given to `add`.
fn correlator_lines(
    record: &Record,
    add: &mut dyn FnMut(Line<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let tcc = |case, inputs| {
        peer(record, ("tcc", case), &[("N", inputs)], |measured| format!("{:.0}", measured.tops()))
    };
    let with = |figure: String, words: &str| {
        if figure.is_empty() { figure } else { format!("{figure}{words}") }
    };
    let correlate = |encoding: &'static str, inputs: u64| {
        move |row: &Row| {
            row.system == "correlate" && row.encoding == encoding && row.size("N") == Some(inputs)
        }
    };
    let tops = |row: &Row| format!("{:.0} TOPS", row.useful_tops);
    let flops = |row: &Row| format!("{:.0} TFLOPS", row.useful_tops);
    let large = correlate("ci8", 2048);
    let medium = correlate("ci8", 256);
    let nibbles = correlate("ci4", 2048);
    let halves = correlate("cf16", 2048);
    // Without kernels of fewer than four bits.
    let four = |row: &Row| {
        nibbles(row) && ["packed-signed", "packed-complex"].contains(&row.kernel.as_str())
    };
    let two = |row: &Row| nibbles(row) && row.kernel == "packed";
    let largest = tcc("correlate ci8", 2048);
    // Hopper emulates int4, so that int8 is the better peer.
    let beside = with(
        largest.clone(),
        &format!(" of int8; {} of int4, emulated", tcc("correlate ci4", 2048)),
    );
    let klages = format!("{:.2} times its GPU's, CHIME", peers::KLAGES_TIMES);
    let lines: [Line<'_>; 6] = [
        ("correlate `ci8`, N = 2048", &large, &tops, with(largest, ", Tensor-Core Correlator")),
        ("correlate `ci8`, N = 256", &medium, &tops, tcc("correlate ci8", 256)),
        ("correlate `ci4`, N = 2048", &nibbles, &tops, beside),
        ("correlate `cf16`, N = 2048", &halves, &flops, tcc("correlate cf16", 2048)),
        (
            "correlate `ci4` without tensor cores, N = 2048, four products an instruction",
            &four,
            &tops,
            String::new(),
        ),
        ("the same, two products an instruction", &two, &tops, klages),
    ];
    lines.into_iter().try_for_each(add)
}

/// The lines of the other systems.
fn other_lines(
    record: &Record,
    add: &mut dyn FnMut(Line<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let beams = peer(record, ("kotekan", "beamform"), &[("B", 96)], |measured| {
        format!("{:.2} ms, kotekan", measured.seconds * 1e3)
    });
    let packets = peer(
        record,
        ("autocorrelation_cuda", "autocorrelate, kernel"),
        &[("packet", 400)],
        |measured| format!("{:.2} M, AutocorrelationCUDA", measured.rate * 1e-6),
    );
    let milliseconds = |row: &Row| format!("{} ms", digits(row.seconds.median * 1e3));
    let items = |row: &Row| table::per_second(row);
    let chord = |row: &Row| {
        let size = |name| row.size(name).unwrap_or(0);
        row.system == "beamform" && (size("D"), size("B"), size("T")) == (512, 96, 32768)
    };
    let counts = |row: &Row| {
        row.system == "autocorrelate"
            && row.size("sensors") == Some(1024)
            && row.size("instants").is_some_and(|instants| instants > 1 << 16)
    };
    let turn = |row: &Row| row.system == "reorder" && row.case.starts_with("ci8 tcn, N 256,");
    let bytes = |row: &Row| format!("{} GB/s", digits(row.gigabytes_per_second));
    let lines: [Line<'_>; 3] = [
        ("beamform 512 dishes to 96 beams (CHORD), T = 32768", &chord, &milliseconds, beams),
        (
            "autocorrelate 1024 sensors, 10 groups of 32 lags, 2^20 instants a call",
            &counts,
            &items,
            packets,
        ),
        ("corner turn of `ci8`, N = 256", &turn, &bytes, String::new()),
    ];
    lines.into_iter().try_for_each(add)
}

/// Share of the chip's binding limit that was reached: a factor where an instruction does several of the limit's
/// operations, so that it exceeds 1.
fn limit(row: &Row) -> String {
    row.limit.as_ref().map_or(String::new(), |limit| {
        if limit.share > 1.0 {
            format!("{:.2} times {}", limit.share, limit.limit)
        } else {
            format!("{:.0} %, {}", 100.0 * limit.share, limit.limit)
        }
    })
}

/// Power and efficiency, where they were measured.
fn efficiency(row: &Row) -> String {
    row.sustained.as_ref().map_or(String::new(), |sustained| {
        let watts = sustained.watts.map(|watts| format!("{watts:.0} W"));
        let efficiency = sustained
            .useful_tops_per_watt
            .map(|efficiency| format!("{} TOPS/W", digits(efficiency)));
        [watts, efficiency].into_iter().flatten().collect::<Vec<_>>().join(", ")
    })
}
