//! Tables of the quickest kernels: one for each model of GPU.
//!
//! Plans whose kernel is `auto` choose by it, and so do kernels among their tiles. Whatever a table says, the
//! bits are the same.

pub(crate) mod autocorrelate;
pub(crate) mod beamform;
pub(crate) mod correlate;
pub(crate) mod fault;
pub(crate) mod place;

use std::{collections::BTreeMap, path::Path, sync::LazyLock};

use serde::{Deserialize, Serialize};

use crate::{
    device::gpu::Facts,
    error::{Error, Result},
    named::Named,
    partial::PartialFile,
    text::read_text,
};

pub use self::{
    autocorrelate::Autocorrelate,
    beamform::Beamform,
    correlate::{Correlate, Correlation, Order, Range},
};

/// Names a file whose table replaces the built-in ones for all GPUs.
pub const TUNING_VARIABLE: &str = "CORRUST_TUNING";

static NAMED: Named<Tuning> = Named::new(TUNING_VARIABLE, Tuning::read);

/// Source of a table's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured on the model.
    Measured,
    /// Measured on another model of the same generation, and scaled by the ratio of their memories' speeds.
    Scaled,
    /// Worked out from the model's data sheet.
    Derived,
    /// Predicted by a model of the chip: `corrust bench --tune --device model:CHIP`.
    Modelled,
}

/// The table of a model of GPU, as `corrust bench --tune` writes it.
///
/// ```
/// use corrust_host::{Correlator, Device, correlate::Kernel, tuning::Tuning};
///
/// let gpu = Device::Sim.open()?;
/// let mut tuning = Tuning::of(gpu.facts())?.clone();
/// tuning.correlate.ci8.ranges.clear();
/// tuning.correlate.ci8.speeds = [(Kernel::Mma64, 1.0)].into();
/// let plan = Correlator::builder(2048, 1).gpu(gpu).tuning(tuning).build()?;
/// assert_eq!(plan.kernel(), Kernel::Mma64);
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// A word of the names that the driver gives the model's GPUs: `H200`.
    pub model: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Source of the numbers.
    pub basis: Basis,
    /// Place, date and program of the measurement, for people to read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machine: BTreeMap<String, String>,
    /// The correlator's.
    pub correlate: Correlate,
    /// The beamformer's.
    pub beamform: Beamform,
    /// The autocorrelator's.
    pub autocorrelate: Autocorrelate,
}

impl Tuning {
    /// The tables built in.
    pub fn built_in() -> &'static [Self] {
        // The first of equally near tables is taken.
        const FILES: [&str; 4] = [
            include_str!("../../tuning/h200.json"),
            include_str!("../../tuning/h100.json"),
            include_str!("../../tuning/a100.json"),
            include_str!("../../tuning/a40.json"),
        ];
        static TABLES: LazyLock<Vec<Tuning>> = LazyLock::new(|| {
            let parse = |text| Tuning::parse(text).expect("tables built in are tested");
            FILES.into_iter().map(parse).collect()
        });
        &TABLES
    }

    /// Returns the tuning table of a GPU: the one that the program [set](Self::set) or the environment names
    /// ([`TUNING_VARIABLE`]), else the built-in table of its model, else of the nearest compute capability.
    ///
    /// # Errors
    /// [`Error::Device`] when what the environment names is no table.
    pub fn of(facts: &Facts) -> Result<&'static Self> {
        Ok(NAMED.get()?.unwrap_or_else(|| Self::nearest(facts)))
    }

    /// A plan's own table, or the table of a GPU.
    pub(crate) fn or_of<'a>(own: Option<&'a Self>, facts: &Facts) -> Result<&'a Self> {
        own.map_or_else(|| Self::of(facts), Ok)
    }

    /// Sets the tuning table of all GPUs of the program, in place of the environment's.
    ///
    /// # Errors
    /// [`Error::Device`] when one was set, or a plan made, before.
    pub fn set(self) -> Result<()> {
        NAMED.set(self)
    }

    /// The built-in table nearest to a GPU.
    pub fn nearest(facts: &Facts) -> &'static Self {
        let distance = |table: &Self| {
            let ((major, minor), (its_major, its_minor)) = (table.capability, facts.capability);
            (!table.is_of(&facts.name), major.abs_diff(its_major), minor.abs_diff(its_minor))
        };
        let tables = Self::built_in().iter();
        tables.min_by_key(|table| distance(table)).expect("there are tables")
    }

    /// Whether a GPU of this name, as the driver gives it, is one of the model.
    pub fn is_of(&self, name: &str) -> bool {
        name == self.model
            || name.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == self.model)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] when it is none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        Self::parse(&text).map_err(|reason| {
            Error::file(path, format!("{reason}, expected a table of `corrust bench --tune`"))
        })
    }

    /// Writes what [`read`](Self::read) reads.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, path: &Path) -> Result<()> {
        PartialFile::write_json(path, self)
    }

    /// Parses a table, or says why it is invalid.
    fn parse(text: &str) -> Result<Self, String> {
        let tuning: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let checked = tuning.correlate.check().and_then(|()| tuning.beamform.check());
        checked
            .and_then(|()| tuning.autocorrelate.check())
            .map_err(|(place, reason)| format!("{place}: {reason}"))?;
        Ok(tuning)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn facts(name: &str, capability: (u32, u32)) -> Facts {
        Facts {
            name: name.to_owned(),
            uuid: String::new(),
            memory: 0,
            capability,
            multiprocessors: 1,
            shared_bytes: 227 << 10,
            l2_bytes: 0,
            driver: (13, 0),
        }
    }

    #[test]
    fn gpus_go_by_their_model_else_by_the_nearest_capability() {
        for (name, capability, model) in [
            ("NVIDIA H200", (9, 0), "H200"),
            ("NVIDIA H100 80GB HBM3", (9, 0), "H100"),
            ("NVIDIA H100 PCIe", (9, 0), "H100"),
            ("NVIDIA A100-SXM4-80GB", (8, 0), "A100"),
            ("NVIDIA A40", (8, 6), "A40"),
            ("NVIDIA GH200 480GB", (9, 0), "H200"),
            ("NVIDIA A30", (8, 0), "A100"),
            ("NVIDIA L40S", (8, 9), "A40"),
            ("Orin", (8, 7), "A40"),
            ("NVIDIA B200", (10, 0), "H200"),
            ("NVIDIA GeForce RTX 5090", (12, 0), "H200"),
            ("simulator", (9, 0), "H200"),
        ] {
            assert_eq!(Tuning::nearest(&facts(name, capability)).model, model, "{name}");
        }
    }

    #[test]
    fn tables_say_what_they_come_from() {
        let basis: Vec<_> =
            Tuning::built_in().iter().map(|table| (&table.model[..], table.basis)).collect();
        for (model, expected) in [("A100", Basis::Modelled), ("A40", Basis::Modelled)] {
            assert!(basis.contains(&(model, expected)), "{basis:?}");
        }
        for table in Tuning::built_in() {
            let measured = table.basis == Basis::Measured;
            assert_eq!(measured, table.machine.contains_key("device"), "{}", table.model);
        }
    }

    #[test]
    fn tables_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        for table in Tuning::built_in() {
            let path = folder.path().join("t.json");
            table.write(&path).unwrap();
            assert_eq!(&Tuning::read(&path).unwrap(), table);
        }
    }

    #[test]
    fn what_plans_cannot_go_by_is_refused_in_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let shipped = serde_json::to_value(&Tuning::built_in()[0]).unwrap();
        let refused = |pointer: &str, value: serde_json::Value, reason: &str| {
            let mut table = shipped.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            table.pointer_mut(parent).unwrap()[name] = value;
            fs::write(&path, table.to_string()).unwrap();
            let error = Tuning::read(&path).unwrap_err().to_string();
            assert!(error.contains("t.json: ") && error.contains(reason), "{error}");
            assert!(error.ends_with("expected a table of `corrust bench --tune`"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        };
        refused("/basis", "guessed".into(), "unknown variant `guessed`");
        refused("/colour", "red".into(), "unknown field `colour`");
        refused("/correlate/ci8/speeds/fastest", 1.into(), "unknown kernel \"fastest\"");
        refused("/correlate/ci8/speeds/mma-64", 0.into(), "correlate.ci8.speeds.mma-64: found 0");
        refused("/correlate/ci8/speeds/wgmma-ci4", 1.into(), "wgmma-ci4 is no GPU's for ci8");
        refused("/correlate/cf16/speeds/cpu-portable", 1.into(), "cpu-portable is no GPU's");
        refused("/correlate/ci4/speeds/packed-complex-1", 1.into(), "packed-complex-1 is no");
        let only = serde_json::json!({"mma-128": 1});
        refused("/correlate/ci4/speeds", only, "correlate.ci4.speeds: kernel mma-64 is missing");
        refused("/beamform/tiles/beamform_x", 1.into(), "unknown kernel \"beamform_x\"");
        refused("/beamform/tiles/beamform_mma_16x64", (-1).into(), "found -1");
        refused("/beamform/tiles", serde_json::json!({}), "beamform_mma_16x512 is missing");
        refused("/beamform/pass", (-1).into(), "beamform.pass: found -1");
        refused("/autocorrelate/counts_over_bins", 0.into(), "counts_over_bins: found 0");
        refused("/autocorrelate/tensor_core_instants", (-1).into(), "invalid value");
        fs::write(&path, "not JSON").unwrap();
        assert!(Tuning::read(&path).unwrap_err().to_string().contains("t.json: expected"));
        let missing = Tuning::read(&folder.path().join("none.json")).unwrap_err().to_string();
        assert!(missing.contains("none.json: cannot read"), "{missing}");
    }
}
