//! The page of a report: one file that refers to no other.

use std::fmt::Write;

use corrust::{
    Result,
    bench::{Facts, Record, Row},
    qualify::requirements::{self, Verdict},
};

use crate::cli::{
    commands::{
        bench::{plot, table},
        qualify::{
            report::{Judged, Report},
            speed,
        },
    },
    terminal::numbers::digits,
};

/// Head and style of the page, with `{body}` for the rest.
const FRAME: &str = include_str!("page.html");

/// The page of a report, beside another's where there is one.
pub fn page(report: &Report, other: Option<&Report>) -> Result<String> {
    let mut body = String::new();
    let _ = writeln!(body, "<h1>Qualification of corrust on {}</h1>", text(&report.machine.device));
    let _ = writeln!(body, "<p>{}.</p>", text(&report.summary()));
    let left: Vec<&str> = requirements::all()
        .iter()
        .map(|requirement| &*requirement.id)
        .filter(|id| report.results.iter().all(|each| each.id != **id))
        .collect();
    if !left.is_empty() {
        let left = left.join(", ");
        let _ = writeln!(
            body,
            "<p>Not asked for, and nothing is claimed of them: {}.</p>",
            text(&left)
        );
    }
    body += &facts(report, other);
    body += &verdicts(report, other);
    body += &details(report);
    body += &times(report, other)?;
    Ok(FRAME.replace("{body}", &body))
}

/// Text as HTML; words between backquotes are code.
fn text(raw: &str) -> String {
    let plain =
        raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let mut parts = plain.split('`');
    let mut all = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(rest) => {
                let _ = write!(all, "<code>{code}</code>{rest}");
            }
            None => {
                let _ = write!(all, "`{code}");
            }
        }
    }
    all
}

/// A row of a table; cells are HTML.
fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>\n")
}

/// A table; titles and rows are HTML.
fn whole(titles: &[String], rows: &str) -> String {
    let titles: String = titles.iter().map(|title| format!("<th>{title}</th>")).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{titles}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Machine and software.
fn facts(report: &Report, other: Option<&Report>) -> String {
    fn said<T: ToString>(value: Option<T>) -> String {
        value.map_or_else(|| "-".to_owned(), |value| value.to_string())
    }
    type Fact = (&'static str, fn(&Report) -> String);
    fn version(value: Option<(u32, u32)>) -> String {
        said(value.map(|(major, minor)| format!("{major}.{minor}")))
    }
    fn machine(report: &Report) -> &Facts {
        &report.machine
    }
    let all: [Fact; 14] = [
        ("device", |report| machine(report).device.clone()),
        ("compute capability", |report| version(machine(report).compute_capability)),
        ("multiprocessors", |report| said(machine(report).multiprocessors)),
        ("driver", |report| said(machine(report).driver.clone())),
        ("CUDA of the driver", |report| version(machine(report).cuda)),
        ("power limit, W", |report| said(machine(report).power_limit)),
        ("highest clock, MHz", |report| said(machine(report).max_sm_mhz)),
        ("highest clock of the memory, MHz", |report| said(machine(report).max_memory_mhz)),
        ("processor", |report| machine(report).cpu.clone()),
        ("threads", |report| machine(report).threads.to_string()),
        ("date", |report| machine(report).date.clone()),
        ("corrust", |report| {
            format!("{}, commit {}", machine(report).version, machine(report).commit)
        }),
        ("compiler", |report| machine(report).compiler.clone()),
        ("minutes at most", |report| report.minutes.to_string()),
    ];
    let mut rows = String::new();
    for (name, fact) in all {
        let values: Vec<String> =
            [Some(report), other].into_iter().flatten().map(|report| text(&fact(report))).collect();
        // A CPU has no multiprocessors.
        if values.iter().any(|value| value != "-") {
            rows += &row(std::iter::once(name.to_owned()).chain(values));
        }
    }
    let mut titles = vec!["fact".to_owned(), "this machine".to_owned()];
    titles.extend(other.map(|_| "the other".to_owned()));
    format!("<h2>Machine</h2>\n{}", whole(&titles, &rows))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::NotDecided => "open",
    }
}

/// A verdict as a cell.
fn verdict(verdict: Verdict) -> String {
    format!("<td class=\"v {}\">{verdict}</td>", class(verdict))
}

/// Requirements and their verdicts.
fn verdicts(report: &Report, other: Option<&Report>) -> String {
    let mut rows = String::new();
    for Judged { id, text: requirement, finding, .. } in &report.results {
        let _ = write!(rows, "<tr><td>{}</td><td>{}</td>", text(id), text(requirement));
        rows += &verdict(finding.verdict);
        if let Some(other) = other {
            match other.results.iter().find(|theirs| theirs.id == *id) {
                Some(theirs) => rows += &verdict(theirs.finding.verdict),
                None => rows += "<td class=\"v open\">-</td>",
            }
        }
        rows += "</tr>\n";
    }
    let mut titles = vec!["name".to_owned(), "requirement".to_owned(), "verdict".to_owned()];
    titles.extend(other.map(|_| "the other".to_owned()));
    format!("<h2>Requirements</h2>\n{}", whole(&titles, &rows))
}

/// Procedure and result of each requirement.
fn details(report: &Report) -> String {
    let mut all = "<h2>How they were verified</h2>\n".to_owned();
    for Judged { id, how, tests, finding, .. } in &report.results {
        let _ = writeln!(
            all,
            "<p><strong>{}</strong>: <span class=\"{}\">{}</span>. {} Result: {}.</p>",
            text(id),
            class(finding.verdict),
            finding.verdict,
            text(how),
            text(finding.text.trim_end_matches('.'))
        );
        if !finding.rows.is_empty() {
            let rows: String =
                finding.rows.iter().map(|cells| row(cells.iter().map(|cell| text(cell)))).collect();
            let titles: Vec<String> = finding.columns.iter().map(|title| text(title)).collect();
            let _ = writeln!(
                all,
                "<details><summary>{} rows</summary>\n{}</details>",
                finding.rows.len(),
                whole(&titles, &rows)
            );
        }
        let tests: Vec<String> = tests.iter().map(|test| text(test)).collect();
        let _ = writeln!(
            all,
            "<p class=\"small\">The project's own tests of it: {}.</p>",
            tests.join(", ")
        );
    }
    all
}

/// Benchmarks, and the record's times of the same cases.
fn times(report: &Report, other: Option<&Report>) -> Result<String> {
    if report.rows.is_empty() {
        return Ok(String::new());
    }
    let shipped = match other {
        Some(_) => None,
        None => Some(speed::record(&report.machine.device)?),
    };
    let (beside, name): (&[Row], &str) = match (other, &shipped) {
        (Some(other), _) => (&other.rows, &other.machine.device),
        (None, Some(record)) => (&record.rows, &record.machine.device),
        (None, None) => (&[], ""),
    };
    let mut rows = String::new();
    for ours in &report.rows {
        let theirs = beside.iter().find(|theirs| theirs.is_of(ours));
        let predicted = report.predicted.iter().find(|predicted| predicted.is_of(ours));
        let milliseconds = |row: &Row| digits(row.seconds.median * 1e3);
        let optional = |value: f64| if value > 0.0 { digits(value) } else { "-".to_owned() };
        let _ = write!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
            text(&ours.system),
            text(&ours.case),
            text(&ours.kernel),
            text(&ours.what),
            milliseconds(ours),
            optional(ours.useful_tops),
            optional(ours.gigabytes_per_second),
        );
        match &ours.limit {
            Some(limit) => {
                let share = 100.0 * limit.share;
                let _ = write!(
                    rows,
                    "<td class=\"share\" style=\"--share: {:.1}%\">{share:.0} % of {}</td>",
                    share.min(100.0),
                    text(&limit.limit)
                );
            }
            None => rows += "<td>-</td>",
        }
        match theirs {
            Some(theirs) => {
                let _ = write!(
                    rows,
                    "<td class=\"n\">{}</td><td class=\"n\">{:.2}</td>",
                    milliseconds(theirs),
                    ours.seconds.median / theirs.seconds.median
                );
            }
            None => rows += "<td class=\"n\">-</td><td class=\"n\">-</td>",
        }
        let predicted = predicted.map_or_else(|| "-".to_owned(), milliseconds);
        let _ = writeln!(rows, "<td class=\"n\">{predicted}</td></tr>");
    }
    let titles = [
        "system".to_owned(),
        "case".to_owned(),
        "kernel".to_owned(),
        "part".to_owned(),
        "ms".to_owned(),
        "TOPS".to_owned(),
        "GB/s".to_owned(),
        "of the limit".to_owned(),
        format!("ms, {}", text(name)),
        "ratio".to_owned(),
        "ms, predicted".to_owned(),
    ];
    let mut all = format!("<h2>Times</h2>\n<p>{}.</p>\n", text(&table::describe(&report.machine)));
    let record = Record { machine: report.machine.clone(), rows: report.rows.clone() };
    if let Some(figure) = plot::figure(&record)? {
        let _ = writeln!(all, "<figure>{figure}</figure>");
    }
    all += &whole(&titles, &rows);
    all += "<p class=\"small\">Medians; every answer was checked in the same run. TOPS are 10^12 useful operations a second, GB/s bytes that must move at least. A ratio above 1 is slower here. Predictions come from <code>corrust bench --device model:CHIP</code>, for GPUs whose chip is known.</p>\n";
    Ok(all)
}
