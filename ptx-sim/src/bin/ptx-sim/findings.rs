//! Findings of a run: as text that points into the PTX, as JSON, and as SARIF 2.1.0 (OASIS, 2020).

use std::fmt::Write;

use ptx_sim::{Fault, FaultKind, Report};
use serde_json::{Value, json};

/// Lines of the PTX that are shown before and behind the one at which something was found.
const NEIGHBOURS: usize = 2;
/// Columns of a line at most; lists of registers can be hundreds long.
const COLUMNS: usize = 120;

/// Findings of a run, and the text that they point into.
pub struct Findings<'a> {
    file: &'a str,
    lines: Vec<&'a str>,
    entry: &'a str,
    fault: Option<Fault>,
    notes: Vec<Note>,
}

/// Something to know that is no mistake.
struct Note {
    line: u32,
    message: String,
}

impl<'a> Findings<'a> {
    pub fn new(
        file: &'a str,
        text: &'a str,
        entry: &'a str,
        fault: Option<Fault>,
        report: Option<&Report>,
    ) -> Self {
        let same = report.map_or(&[][..], |report| &report.same_value);
        let mut notes: Vec<Note> = same
            .iter()
            .map(|note| Note {
                line: note.line,
                message: format!(
                    "{} stores race with the stores on line {}, and store the same value",
                    note.times, note.other_line
                ),
            })
            .collect();
        if report.is_some_and(|report| report.partly_checked) {
            let message = "global memory is too large: not all accesses were checked for races";
            notes.push(Note { line: 1, message: message.to_owned() });
        }
        Self { file, lines: text.lines().collect(), entry, fault, notes }
    }

    /// Whether the kernel made no mistake.
    pub fn clean(&self) -> bool {
        self.fault.is_none()
    }

    /// Name of the entry.
    pub fn entry(&self) -> &str {
        self.entry
    }

    /// Text for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if let Some(fault) = &self.fault {
            let name = rule(fault.kind).0;
            let origin = fault.origin.as_ref().map_or(String::new(), |o| format!(" ({o})"));
            // Writing to a string succeeds.
            let _ = writeln!(text, "error[{name}]: {}", fault.message);
            let _ = writeln!(text, "  --> {}:{}{origin}", self.file, fault.line);
            text += &self.neighbours(fault.line);
            let [x, y, z] = fault.block;
            let _ = write!(
                text,
                "  entry {}, block ({x}, {y}, {z}), warp {}",
                fault.kernel, fault.warp
            );
            let _ = match fault.lane {
                Some(lane) => writeln!(text, ", lane {lane}"),
                None => writeln!(text),
            };
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {}", note.message);
            let _ = writeln!(text, "  --> {}:{}", self.file, note.line);
            text += &self.neighbours(note.line);
        }
        text
    }

    /// A line and its neighbours, with their numbers.
    fn neighbours(&self, line: u32) -> String {
        let at = line as usize;
        let first = at.saturating_sub(NEIGHBOURS).max(1);
        let last = (at + NEIGHBOURS).min(self.lines.len());
        (first..=last)
            .map(|number| {
                let mark = if number == at { '>' } else { '|' };
                let shown: String = self.lines[number - 1].chars().take(COLUMNS).collect();
                format!("{number:>6} {mark} {}\n", shown.trim_end())
            })
            .collect()
    }

    /// JSON: the file, the entry, and every finding with its place.
    pub fn to_json(&self) -> String {
        let findings: Vec<Value> = self
            .fault
            .iter()
            .map(|fault| {
                json!({
                    "kind": rule(fault.kind).0,
                    "message": fault.message,
                    "line": fault.line,
                    "origin": fault.origin,
                    "instruction": fault.instruction,
                    "block": fault.block,
                    "warp": fault.warp,
                    "lane": fault.lane,
                })
            })
            .collect();
        let notes: Vec<Value> =
            self.notes.iter().map(|n| json!({ "line": n.line, "message": n.message })).collect();
        pretty(&json!({
            "file": self.file,
            "entry": self.entry,
            "findings": findings,
            "notes": notes,
        }))
    }

    /// SARIF: one run with a result for each finding and note.
    pub fn to_sarif(&self) -> String {
        let mut results: Vec<Value> = self
            .fault
            .iter()
            .map(|fault| {
                let text = fault.to_string();
                self.result(rule(fault.kind).0, "error", &text, fault.line)
            })
            .collect();
        results.extend(
            self.notes.iter().map(|n| self.result(SAME_VALUE.0, "note", &n.message, n.line)),
        );
        let rules: Vec<Value> = KINDS
            .iter()
            .map(|kind| rule(*kind))
            .chain([SAME_VALUE])
            .map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } }))
            .collect();
        pretty(&json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "ptx-sim",
                    "version": env!("CARGO_PKG_VERSION"),
                    "informationUri": env!("CARGO_PKG_REPOSITORY"),
                    "rules": rules,
                } },
                "results": results,
            }],
        }))
    }

    fn result(&self, id: &str, level: &str, message: &str, line: u32) -> Value {
        let snippet =
            self.lines.get((line as usize).saturating_sub(1)).copied().unwrap_or_default();
        json!({
            "ruleId": id,
            "level": level,
            "message": { "text": message },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": self.file.replace('\\', "/") },
                "region": { "startLine": line, "snippet": { "text": snippet } },
            } }],
        })
    }
}

/// Rule of notes about stores that race but store the same.
const SAME_VALUE: (&str, &str) = (
    "same-value",
    "Several threads store the same value to the same bytes, and nothing orders them.",
);

/// Kinds of findings.
const KINDS: [FaultKind; 9] = [
    FaultKind::OutOfBounds,
    FaultKind::Misaligned,
    FaultKind::Uninitialised,
    FaultKind::Race,
    FaultKind::MissingWait,
    FaultKind::Divergence,
    FaultKind::Deadlock,
    FaultKind::Trap,
    FaultKind::Invalid,
];

/// Name and description of a kind of finding.
fn rule(kind: FaultKind) -> (&'static str, &'static str) {
    match kind {
        FaultKind::OutOfBounds => ("out-of-bounds", "An access lies outside of all memory."),
        FaultKind::Misaligned => ("misaligned", "An address is not a multiple of the access size."),
        FaultKind::Uninitialised => ("uninitialised", "Shared memory is read that nothing wrote."),
        FaultKind::Race => {
            ("race", "Two accesses to the same bytes, one a write, are not ordered.")
        }
        FaultKind::MissingWait => {
            ("missing-wait", "The wait for an asynchronous instruction is missing.")
        }
        FaultKind::Divergence => ("divergence", "Threads do not reach an instruction together."),
        FaultKind::Deadlock => ("deadlock", "All warps that are left wait for ever."),
        FaultKind::Trap => ("trap", "The kernel trapped, or does not come to an end."),
        FaultKind::Invalid => ("invalid", "An instruction does not allow its operands."),
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
