//! Facts of a chip: JSON files with a source for every number.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

use crate::error::{Error, Result};

/// The shipped chips, as their names and JSON.
pub const CHIPS: [(&str, &str); 6] = [
    ("a100", include_str!("../chips/a100.json")),
    ("a30", include_str!("../chips/a30.json")),
    ("a40", include_str!("../chips/a40.json")),
    ("h100", include_str!("../chips/h100.json")),
    ("h200", include_str!("../chips/h200.json")),
    ("l40s", include_str!("../chips/l40s.json")),
];

/// Facts of a chip; rates are of one multiprocessor and clock unless their names say otherwise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// Name: `a100`.
    pub name: String,
    /// Name as the driver gives it.
    pub device: String,
    /// Architecture that ptxas makes machine code for: `sm_80`.
    pub arch: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Highest clock, MHz.
    pub megahertz: f64,
    /// Power limit, W.
    pub watts: f64,
    /// Power of the first milliseconds, W, before the limit is felt.
    pub peak_watts: f64,
    /// Bytes a second from and to the host.
    pub pcie_bytes_per_second: f64,
    /// Seconds from one kernel's end to the next one's work.
    pub launch_seconds: f64,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Bytes that device memory moves a second.
    pub dram_bytes_per_second: f64,
    /// Bytes that the L2 cache of the whole chip moves a clock.
    pub l2_bytes_per_clock: f64,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// Warps that a multiprocessor holds.
    pub warps: u32,
    /// Blocks that a multiprocessor holds.
    pub blocks: u32,
    /// Bytes of shared memory of a multiprocessor, for all its blocks.
    pub shared_bytes: u32,
    /// Bytes of a multiprocessor that L1 and shared memory divide.
    pub l1_bytes: u32,
    /// Registers of a multiprocessor.
    pub registers: u32,
    /// Cycles that a scheduler's float pipe takes for a warp's instruction.
    pub float_cycles: f64,
    /// Latencies, cycles.
    pub latency: Latency,
    /// Operations of the tensor cores by kind: `s8`, `f16`, `b1`, `s4` of `mma.sync`, `wg_...` of `wgmma`.
    pub tensor: BTreeMap<String, f64>,
    /// Whether `mma.sync` and other instructions of a scheduler take turns.
    pub mma_excludes: bool,
    /// Energies; none where they were not measured, and the clock is the highest then.
    pub energy: Option<Energy>,
    /// Source of every number above, by the name of its field.
    pub sources: BTreeMap<String, String>,
}

/// Latencies, cycles.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Load from shared memory.
    pub shared: f64,
    /// Load that the L2 cache answers.
    pub l2: f64,
    /// Load that device memory answers.
    pub dram: f64,
}

/// Energies at the highest clock: joules of an operation or byte, and the watts of a chip that waits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// Watts of a chip at its highest clock without work.
    pub idle_watts: f64,
    /// Integer operation of tensor cores.
    pub s8: f64,
    /// Half-precision operation of `wgmma`.
    pub wg_f16: f64,
    /// Half-precision operation of `mma.sync`.
    pub f16: f64,
    /// Byte of device memory.
    pub dram: f64,
    /// Byte of shared memory.
    pub shared: f64,
    /// Byte of the L2 cache.
    pub l2: f64,
    /// Instruction of a warp.
    pub instruction: f64,
    /// Power of the clock, as a ratio to the highest, that an operation's energy goes with.
    pub exponent: f64,
}

impl Chip {
    /// A shipped chip by its name, or one of a JSON file.
    pub fn named(name: &str) -> Result<Self> {
        if let Some((_, json)) = CHIPS.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, json);
        }
        if Path::new(name).extension().is_some_and(|extension| extension == "json") {
            let bad = |error: std::io::Error| Error::BadChip {
                name: name.to_owned(),
                fault: error.to_string(),
            };
            return Self::parse(name, &fs::read_to_string(name).map_err(bad)?);
        }
        let known = CHIPS.map(|(known, _)| known).join(", ");
        Err(Error::UnknownChip { name: name.to_owned(), known })
    }

    fn parse(name: &str, json: &str) -> Result<Self> {
        let bad = |fault: String| Error::BadChip { name: name.to_owned(), fault };
        let chip: Self = serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
        let fields: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
        let numbers = fields.iter().filter(|(key, value)| {
            !matches!(key.as_str(), "name" | "device" | "arch" | "sources") && !value.is_null()
        });
        for (key, _) in numbers {
            if !chip.sources.contains_key(key) {
                return Err(bad(format!("no source is given for {key}")));
            }
        }
        let positive = [
            chip.megahertz,
            chip.dram_bytes_per_second,
            chip.l2_bytes_per_clock,
            f64::from(chip.multiprocessors),
            f64::from(chip.warps),
        ];
        if !positive.iter().all(|value| *value > 0.0) {
            return Err(bad("rates and numbers must be positive".to_owned()));
        }
        Ok(chip)
    }

    /// Highest clock, Hz.
    pub fn hertz(&self) -> f64 {
        self.megahertz * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_chip_has_a_source_for_every_number() {
        for (name, _) in CHIPS {
            assert_eq!(Chip::named(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_number_without_a_source_is_refused() {
        let json = CHIPS[0].1.replace("\"watts\": \"", "\"what\": \"");
        let error = Chip::parse("x", &json).unwrap_err().to_string();
        assert_eq!(error, "chip x: no source is given for watts");
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_are_known() {
        let error = Chip::named("b200").unwrap_err().to_string();
        assert!(
            error.ends_with("expected one of a100, a30, a40, h100, h200, l40s, or a JSON file")
        );
    }
}
