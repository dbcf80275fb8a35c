//! Requirements of `corrust qualify`: data in `requirements.toml`, each with the check that decides it.

use std::{collections::BTreeSet, sync::OnceLock};

use serde::{Deserialize, Serialize};

use crate::plans::System;

/// A requirement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Short name, which reports compare by.
    pub id: String,
    /// The requirement, in one sentence.
    pub text: String,
    /// Procedure that verifies it here.
    pub how: String,
    /// The check that decides it.
    pub check: Check,
    /// System that the check is made of, where it is made of one.
    pub system: Option<System>,
    /// The project's own tests of the same, which need its sources.
    pub tests: Vec<String>,
}

/// A way to decide a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Every kernel of a system, against the plain loops and the CPU: [`kernels`](crate::checks::kernels).
    Kernels,
    /// Random plans for some time: [`random_plans`](crate::checks::random_plans).
    RandomPlans,
    /// Runs that are repeated: [`repeats`](crate::checks::repeats).
    Repeats,
    /// Commands that are killed.
    Kill,
    /// A disk that is full.
    Disk,
    /// Packets that are lost on their way to `corrust serve`.
    Loss,
    /// Benchmarks beside a record.
    Speed,
}

/// A requirement's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The requirement holds here.
    Passed,
    /// The requirement does not hold here.
    Failed,
    /// The requirement was not decided here.
    NotDecided,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::NotDecided => "not decided",
        })
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether the requirement holds.
    pub verdict: Verdict,
    /// The result in one sentence.
    pub text: String,
    /// Titles of the columns of `rows`.
    pub columns: Vec<String>,
    /// Details.
    pub rows: Vec<Vec<String>>,
}

impl Finding {
    /// A finding without details.
    pub fn new(verdict: Verdict, text: impl Into<String>) -> Self {
        Self { verdict, text: text.into(), columns: Vec::new(), rows: Vec::new() }
    }

    /// The same with details.
    #[must_use]
    pub fn with(mut self, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        self.columns = columns.iter().map(|title| (*title).to_owned()).collect();
        self.rows = rows;
        self
    }
}

/// The requirements of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirements {
    requirement: Vec<Requirement>,
}

/// All requirements, in the order in which they are verified.
///
/// # Panics
/// Never: a test reads them.
pub fn all() -> &'static [Requirement] {
    static ALL: OnceLock<Vec<Requirement>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all: Requirements =
            toml::from_str(include_str!("requirements.toml")).expect("requirements");
        let names: BTreeSet<_> = all.requirement.iter().map(|each| &each.id).collect();
        assert_eq!(names.len(), all.requirement.len(), "requirements of one name");
        all.requirement
    })
}

#[cfg(test)]
mod tests {
    use super::{Check, all};
    use crate::plans::System;

    #[test]
    fn every_system_has_a_requirement_on_its_kernels() {
        let exact = System::EXACT.into_iter().filter(|system| !system.kernels().is_empty());
        for system in exact.chain(System::BOUNDED) {
            let of = |each: &&_| {
                let each: &super::Requirement = each;
                each.check == Check::Kernels && each.system == Some(system)
            };
            assert_eq!(all().iter().filter(of).count(), 1, "{system}");
        }
    }

    #[test]
    fn tests_of_requirements_are_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for requirement in all() {
            assert!(!requirement.tests.is_empty(), "{}", requirement.id);
            for test in &requirement.tests {
                assert!(root.join(test).exists(), "{}: {test}", requirement.id);
            }
        }
    }
}
