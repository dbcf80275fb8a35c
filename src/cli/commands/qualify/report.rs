//! Reports of `corrust qualify`.

use std::{fmt::Write, path::Path};

use corrust::{
    Error, Result,
    bench::{Facts, Row},
    format::read_text,
    qualify::requirements::{Finding, Requirement, Verdict},
};
use serde::{Deserialize, Serialize};

use crate::cli::{
    commands::bench::table,
    terminal::numbers::{count, digits},
};

/// A requirement and its fate on a machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Judged {
    /// Its name.
    pub id: String,
    /// The requirement.
    pub text: String,
    /// Procedure that verified it.
    pub how: String,
    /// The project's own tests of it.
    pub tests: Vec<String>,
    /// The result.
    pub finding: Finding,
}

impl Judged {
    pub fn new(requirement: &Requirement, finding: Finding) -> Self {
        let Requirement { id, text, how, tests, .. } = requirement.clone();
        Self { id, text, how, tests, finding }
    }
}

/// Fates of all requirements on a machine, and its benchmarks.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub machine: Facts,
    /// Most minutes of the run.
    pub minutes: f64,
    /// Seed of the first random plan.
    pub seed: u64,
    /// Requirements in the order in which they were decided.
    pub results: Vec<Judged>,
    /// Benchmarks.
    pub rows: Vec<Row>,
    /// Predictions of the same cases, for a GPU whose chip is known.
    #[serde(default)]
    pub predicted: Vec<Row>,
}

impl Report {
    /// A report in which nothing is decided.
    pub fn new(machine: Facts, minutes: f64, seed: u64) -> Self {
        Self {
            machine,
            minutes,
            seed,
            results: Vec::new(),
            rows: Vec::new(),
            predicted: Vec::new(),
        }
    }

    /// Reads the JSON that a run wrote.
    pub fn read(path: &Path) -> Result<Self> {
        serde_json::from_str(&read_text(path)?).map_err(|error| {
            Error::file(path, format!("expected a report of `corrust qualify`: {error}"))
        })
    }

    /// Number of requirements with a verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        self.results.iter().filter(|each| each.finding.verdict == verdict).count()
    }

    /// Verdicts in one line.
    pub fn summary(&self) -> String {
        format!(
            "{}: {} passed, {} failed, {} not decided here",
            count(self.results.len(), "requirement"),
            self.with(Verdict::Passed),
            self.with(Verdict::Failed),
            self.with(Verdict::NotDecided)
        )
    }

    /// The text of an issue.
    pub fn markdown(&self) -> String {
        let mut text = format!("# Qualification on {}\n\n", self.machine.device);
        let _ = writeln!(text, "{}\n\n{}\n", table::describe(&self.machine), self.summary());
        text += "| requirement | verdict | result |\n|---|---|---|\n";
        for Judged { id, finding, .. } in &self.results {
            let _ = writeln!(text, "| {id} | {} | {} |", finding.verdict, cell(&finding.text));
        }
        let timed: Vec<&Row> = self.rows.iter().filter(|row| row.auto).collect();
        if !timed.is_empty() {
            text += "\n| case | kernel | part | ms | of the limit |\n|---|---|---|---|---|\n";
        }
        for row in timed {
            let share = row.limit.as_ref().map_or(String::new(), |limit| {
                format!("{:.0} % of {}", 100.0 * limit.share, limit.limit)
            });
            let _ = writeln!(
                text,
                "| {} {} | {} | {} | {} | {share} |",
                row.system,
                cell(&row.case),
                row.kernel,
                row.what,
                digits(row.seconds.median * 1e3)
            );
        }
        text
    }
}

/// Text within a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
