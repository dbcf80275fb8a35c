//! A fit's model, and the conditions on its parameters.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use corrust_host::{Error, Result};

use super::model::Model;

/// Structure parameter where none is given: length of the focus by its radius.
const KAPPA: f64 = 5.0;

/// A model, and the conditions on its parameters. Times are in seconds.
///
/// `kappa` is fixed at 5 and `offset` at 1 unless they are given a start value or bounds, or `offset` is in the model.
#[derive(Clone, Debug)]
pub struct Fit {
    pub(super) model: Model,
    pub(super) fixed: BTreeMap<&'static str, f64>,
    pub(super) starts: BTreeMap<&'static str, f64>,
    pub(super) bounds: BTreeMap<&'static str, (f64, f64)>,
    /// Parameters that the caller holds, and those that the caller bounds.
    held: BTreeSet<&'static str>,
    bounded: BTreeSet<&'static str>,
    pub(super) shared: BTreeSet<&'static str>,
    pub(super) range: RangeInclusive<f64>,
    pub(super) weighted: bool,
}

impl Fit {
    /// A fit of a model to all lags above 0, weighted by bars where a curve has them.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it has other than 1 or 2 components.
    pub fn new(model: Model) -> Result<Self> {
        model.check()?;
        let mut fixed = BTreeMap::new();
        if !model.plane {
            fixed.insert("kappa", KAPPA);
        }
        if !model.offset {
            fixed.insert("offset", 1.0);
        }
        let bound = |name| match name {
            // A focus is longer than it is wide.
            "kappa" => (1.0, possible(name).1),
            _ => possible(name),
        };
        let bounds = model.names().into_iter().map(|name| (name, bound(name))).collect();
        Ok(Self {
            model,
            fixed,
            starts: BTreeMap::new(),
            bounds,
            held: BTreeSet::new(),
            bounded: BTreeSet::new(),
            shared: BTreeSet::new(),
            range: f64::MIN_POSITIVE..=f64::MAX,
            weighted: true,
        })
    }

    /// The model.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Holds a parameter at a value, also beyond the bounds that a fit has by itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the model has no such parameter, it cannot have the value, or it is given
    /// [bounds](Self::bound).
    pub fn fix(mut self, name: &str, value: f64) -> Result<Self> {
        let name = self.name(name)?;
        within(name, value, possible(name))?;
        self.held.insert(name);
        self.check_held(name)?;
        self.fixed.insert(name, value);
        Ok(self)
    }

    /// Starts fits from a value of a parameter, and from others that the curve suggests; the least minimum of all is
    /// taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the model has no such parameter, or the value is not within its bounds.
    pub fn start(mut self, name: &str, value: f64) -> Result<Self> {
        let name = self.name(name)?;
        within(name, value, self.bounds[name])?;
        self.fixed.remove(name);
        self.held.remove(name);
        self.starts.insert(name, value);
        Ok(self)
    }

    /// Frees a parameter and keeps it within bounds, which may be wider than those without: `kappa` of 1 and more, `fraction` from 0 to
    /// 1, `triplet` from 0 to 0.99, `n` and times above 0, `triplet_time` up to the least diffusion time.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the model has no such parameter, it cannot have these values, or it is
    /// [held](Self::fix).
    pub fn bound(mut self, name: &str, bounds: RangeInclusive<f64>) -> Result<Self> {
        let (low, high) = bounds.into_inner();
        let known = self.name(name)?;
        [low, high].into_iter().try_for_each(|limit| within(known, limit, possible(known)))?;
        self.bounded.insert(known);
        self.check_held(known)?;
        let start = self.starts.get(known);
        if low >= high || start.is_some_and(|start| !(low..=high).contains(start)) {
            return Err(Error::invalid(format!(
                "bounds {low:e}..{high:e} of {name}: expected two ascending values around its start"
            )));
        }
        self.fixed.remove(known);
        self.bounds.insert(known, (low, high));
        Ok(self)
    }

    /// Gives all curves one value of a parameter.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the model has no such parameter.
    pub fn share(mut self, name: &str) -> Result<Self> {
        let name = self.name(name)?;
        self.shared.insert(name);
        Ok(self)
    }

    /// Fits only lags of this range, in seconds.
    pub fn range(self, range: RangeInclusive<f64>) -> Self {
        Self { range, ..self }
    }

    /// Weighs all values alike, whatever their error bars.
    pub fn unweighted(self) -> Self {
        Self { weighted: false, ..self }
    }

    /// Whether a dark state lasts no longer than the way through the focus, as it does where nothing else is said of its time.
    pub(super) fn is_quick(&self) -> bool {
        let name = "triplet_time";
        self.bounds.get(name).is_some_and(|bounds| *bounds == possible(name))
            && !self.fixed.contains_key(name)
            && !self.starts.contains_key(name)
    }

    /// Refuses a parameter that is both held and bounded.
    fn check_held(&self, name: &str) -> Result<()> {
        if !(self.held.contains(name) && self.bounded.contains(name)) {
            return Ok(());
        }
        Err(Error::invalid(format!("{name} is both fixed and bounded: expected one of them")))
    }

    /// The model's own name of a parameter.
    fn name(&self, name: &str) -> Result<&'static str> {
        let names = self.model.names();
        names.iter().find(|known| **known == name).copied().ok_or_else(|| {
            Error::invalid(format!("parameter {name:?}: expected {}", names.join(", ")))
        })
    }
}

/// Least and largest value that a parameter of the model can have.
fn possible(name: &str) -> (f64, f64) {
    match name {
        "n" => (1e-9, 1e12),
        "kappa" => (0.1, 1e3),
        "fraction" => (0.0, 1.0),
        "triplet" => (0.0, 0.99),
        "offset" => (-1e12, 1e12),
        _ => (1e-12, 1e12),
    }
}

/// Refuses a value beyond limits.
fn within(name: &str, value: f64, (low, high): (f64, f64)) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("{name}={value}: expected {low:e} to {high:e}")))
}
