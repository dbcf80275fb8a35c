//! Models of g(tau) and their derivatives.

use corrust_host::{Error, Result};

/// Model of molecules that diffuse through a Gaussian focus:
///
/// `g(tau) = offset + 1/n (1 + T/(1-T) exp(-tau/tau_T)) sum_k f_k (1 + tau/tau_k)^-1 (1 + tau/(kappa^2 tau_k))^-1/2`
///
/// In a plane the factor with the root is 1. Sources: Magde, Elson and Webb, Biopolymers 13, 29 (1974); Aragón and
/// Pecora, J. Chem. Phys. 64, 1791 (1976); for the triplet Widengren, Mets and Rigler, J. Phys. Chem. 99, 13368
/// (1995). Of two components `fraction` is the first one's share of the amplitude, `f_2 = 1 - fraction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Whether molecules diffuse in a plane (2D), not in space (3D).
    pub plane: bool,
    /// Number of diffusing components: 1 or 2.
    pub components: usize,
    /// Whether a triplet state darkens molecules.
    pub triplet: bool,
    /// Whether the value at long lags is fitted; it is 1 otherwise, as in the curves of an autocorrelation.
    pub offset: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self { plane: false, components: 1, triplet: false, offset: false }
    }
}

/// Diffusing components of a model, at most.
pub(super) const MOST_COMPONENTS: usize = 2;

/// `(1 + tau/time)^-1 (1 + tau/(kappa^2 time))^-1/2`; in a plane, without `kappa`, the root is 1.
pub(super) fn diffusion(tau: f64, time: f64, kappa: Option<f64>) -> f64 {
    let x = tau / time;
    let along = kappa.map_or(0.0, |kappa| x / (kappa * kappa));
    1.0 / (1.0 + x) / (1.0 + along).sqrt()
}

/// Scale on which a parameter is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Its logarithm: the parameter is positive.
    Logarithm,
    /// The parameter itself.
    Linear,
}

impl Scale {
    pub fn into(self, value: f64) -> f64 {
        if self == Self::Logarithm { value.ln() } else { value }
    }

    pub fn is_logarithm(self) -> bool {
        self == Self::Logarithm
    }

    pub fn from(self, value: f64) -> f64 {
        if self == Self::Logarithm { value.exp() } else { value }
    }
}

/// The scale of a parameter.
pub(super) fn scale(name: &str) -> Scale {
    match name {
        "fraction" | "triplet" | "offset" => Scale::Linear,
        _ => Scale::Logarithm,
    }
}

impl Model {
    /// Refuses numbers of components that no model has.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(super) fn check(&self) -> Result<()> {
        match self.components {
            1..=MOST_COMPONENTS => Ok(()),
            other => Err(Error::invalid(format!("{other} components: expected 1 or 2"))),
        }
    }

    /// Names of the model's parameters, in the order of the values that it takes.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names = vec!["n"];
        match self.components {
            1 => names.push("tau"),
            _ => names.extend(["tau1", "tau2", "fraction"]),
        }
        if !self.plane {
            names.push("kappa");
        }
        if self.triplet {
            names.extend(["triplet", "triplet_time"]);
        }
        names.push("offset");
        names
    }

    /// Unit of a parameter.
    pub fn unit(name: &str) -> &'static str {
        if name.starts_with("tau") || name == "triplet_time" { "s" } else { "" }
    }

    /// Returns g at the lag `tau`, in seconds, for values in the order of [`names`](Self::names), and writes its
    /// derivatives by the parameters, or by their logarithms where they are fitted so.
    ///
    /// # Panics
    /// When there are fewer values or derivatives than names.
    pub(super) fn evaluate(&self, tau: f64, values: &[f64], derivatives: &mut [f64]) -> f64 {
        let mut place = 1;
        let mut next = || {
            place += 1;
            (place - 1, values[place - 1])
        };
        let amplitude = 1.0 / values[0];
        let mut times = [(0, 0.0); MOST_COMPONENTS];
        let times = &mut times[..self.components];
        times.iter_mut().for_each(|time| *time = next());
        let fraction = (self.components == 2).then(&mut next);
        let kappa = (!self.plane).then(&mut next);
        let triplet = self.triplet.then(|| (next(), next()));
        let (offset_at, offset) = next();

        // Triplet: factor, derivatives by T and by the logarithm of its time.
        let (mut factor, mut by_triplet) = (1.0, [0.0; 2]);
        if let Some(((_, t), (_, time))) = triplet {
            let dark = (-tau / time).exp();
            factor = 1.0 + t / (1.0 - t) * dark;
            by_triplet = [dark / (1.0 - t).powi(2), t / (1.0 - t) * dark * tau / time];
        }
        let (mut sum, mut by_kappa) = (0.0, 0.0);
        let mut terms = [0.0; MOST_COMPONENTS];
        let share = fraction.map_or([1.0, 0.0], |(_, f)| [f, 1.0 - f]);
        for (k, &(at, time)) in times.iter().enumerate() {
            let x = tau / time;
            let y = kappa.map_or(0.0, |(_, kappa)| x / (kappa * kappa));
            terms[k] = diffusion(tau, time, kappa.map(|kappa| kappa.1));
            let term = share[k] * terms[k];
            sum += term;
            by_kappa += term * y / (1.0 + y);
            derivatives[at] = amplitude * factor * term * (x / (1.0 + x) + 0.5 * y / (1.0 + y));
        }
        derivatives[0] = -amplitude * factor * sum;
        if let Some((at, _)) = fraction {
            derivatives[at] = amplitude * factor * (terms[0] - terms[1]);
        }
        if let Some((at, _)) = kappa {
            derivatives[at] = amplitude * factor * by_kappa;
        }
        if let Some(((at, _), (time_at, _))) = triplet {
            derivatives[at] = amplitude * sum * by_triplet[0];
            derivatives[time_at] = amplitude * sum * by_triplet[1];
        }
        derivatives[offset_at] = 1.0;
        offset + amplitude * factor * sum
    }

    /// Returns g at the lag `tau`, in seconds, for values in the order of [`names`](Self::names).
    ///
    /// # Panics
    /// When there are fewer values than names.
    pub fn g(&self, tau: f64, values: &[f64]) -> f64 {
        self.evaluate(tau, values, &mut vec![0.0; values.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_differences() {
        for (plane, components, triplet) in
            [(false, 1, false), (true, 1, true), (false, 2, true), (true, 2, false)]
        {
            let model = Model { plane, components, triplet, offset: true };
            let names = model.names();
            let value = |name: &&str| match *name {
                "n" => 2.5,
                "tau1" => 3e-5,
                "tau" | "tau2" => 4e-4,
                "fraction" => 0.3,
                "kappa" => 4.0,
                "triplet" => 0.2,
                "triplet_time" => 3e-6,
                _ => 1.01,
            };
            let values: Vec<f64> = names.iter().map(value).collect();
            let mut derivatives = vec![0.0; names.len()];
            for tau in [1e-6, 2e-5, 7e-4, 0.1] {
                model.evaluate(tau, &values, &mut derivatives);
                for (at, name) in names.iter().enumerate() {
                    let moved = |step: f64| {
                        let mut values = values.clone();
                        values[at] = scale(name).from(scale(name).into(values[at]) + step);
                        model.g(tau, &values)
                    };
                    let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    let (found, of) = (derivatives[at], (model, name, tau));
                    assert!((found - difference).abs() < 1e-8, "{of:?}: {found} {difference}");
                }
            }
        }
    }
}
