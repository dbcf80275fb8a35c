//! Photons of molecules that diffuse through the focus of a microscope.
//!
//! Lengths are in units of the focus's radius `w`: a molecule at `r` in the plane and `z` along the axis sends
//! `b exp(-2 r^2 - 2 (z / k)^2)` photons a second, `k` the focus's length by its radius. With the diffusion time
//! `tau_D = w^2 / 4 D` and `N` molecules in the effective volume, `pi^(3/2) k w^3` (in a plane `pi w^2`), the
//! correlation of counts is
//!
//! `g(tau) = 1 + 1/N / (1 + tau / tau_D) / sqrt(1 + tau / (k^2 tau_D))`,
//!
//! in a plane without the root. The molecules are in a box without walls, which leaves on one side what enters on
//! the other. Their number is fixed, which takes `1 / number` from `g` at lags shorter than the way through the box: 0.02 % of
//! the amplitude where molecules are few. Of many the box is smaller, and it is up to 0.1 %, 0.3 % in a plane, which moves a
//! fit's diffusion time: by -1 %, in a plane by -4 %.
//!
//! Two kinds of molecules may be there, each with its own brightness, diffusion time and lifetime.
//!
//! A step is a 64th of the diffusion time, of the quicker kind's; molecules out of the light take as many at once as keep them there.
//! Photons between steps are anywhere, as of a Poisson process whose rate is the step's. Every molecule has random
//! numbers of its own, so that any number of threads make the same photons.

use std::{f64::consts::PI, path::Path};

use corrust_host::{Error, Result, partial::PartialFile};
use rand::{Rng, RngExt, rngs::ChaCha8Rng};
use rand_distr::{Exp1, StandardNormal};
use rayon::prelude::*;
use serde::Serialize;

use super::random;
use crate::formats::{
    description,
    npy::{Dtype, Writer},
    ptu,
};

/// Steps of a diffusion time.
const STEPS: f64 = 64.0;

/// Least side of the box in the plane, and along the axis by the focus's length.
const SIDE: f64 = 16.0;
/// Least side of the box where all is in a plane.
const PLANE: f64 = 32.0;

/// Largest sides by the least ones, in space and in a plane.
const LARGER: [f64; 2] = [2.0, 4.0];

/// Molecules of a box that is larger than the least one, at most: those far from the light cost little.
const MOLECULES: f64 = (1 << 15) as f64;

/// Distance, in units of the focus, beyond which no light is simulated: there it is 6e-5 of the centre's.
pub(super) const DARK: f64 = 2.2;

/// Standard deviations that a molecule out of the light is kept away from it.
pub(super) const FAR: f64 = 5.0;

/// Steps that are made at a time.
const PIECE: u64 = 1 << 16;

/// Photons of a piece in the mean, and of a step, at most.
const MOST_PHOTONS: f64 = (1 << 22) as f64;

/// Picoseconds of the laser's period: 80 MHz.
const PERIOD: u64 = 12_500;

/// Picoseconds of a unit of microtimes, and from the laser's pulse to the light's arrival.
const MICROTIME: u64 = 16;
const ARRIVAL: f64 = 1_000.0;

/// Stream of random numbers of the background; molecules have those from 0 on.
const BACKGROUND: u64 = u64::MAX;

/// A kind of molecules; fields are as of [`Diffusion`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "Diffusion has them")]
pub struct Species {
    pub molecules: f64,
    pub diffusion_time: f64,
    pub brightness: f64,
    pub lifetime: f64,
}

/// Molecules that diffuse, and the microscope that observes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Diffusion {
    /// `N`: molecules in the effective volume, in the mean.
    pub molecules: f64,
    /// `tau_D`, in seconds.
    pub diffusion_time: f64,
    /// `k`, the focus's length by its radius; [`None`] for molecules in a plane.
    pub axial_ratio: Option<f64>,
    /// Photons a second of a molecule in the focus's centre.
    pub brightness: f64,
    /// Seconds of the fluorescence's lifetime, rounded to whole picoseconds.
    pub lifetime: f64,
    /// Molecules of another kind among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<Species>,
    /// Background photons a second of each detector.
    pub background: f64,
    /// Detectors, which share the photons at random.
    pub detectors: usize,
    /// Duration, seconds.
    pub seconds: f64,
    /// Equal seeds give equal photons.
    pub seed: u64,
}

impl Default for Diffusion {
    fn default() -> Self {
        Self {
            molecules: 1.0,
            diffusion_time: 100e-6,
            axial_ratio: Some(5.0),
            brightness: 100e3,
            lifetime: 2.5e-9,
            second: None,
            background: 0.0,
            detectors: 1,
            seconds: 10.0,
            seed: 1,
        }
    }
}

/// A photon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Photon {
    /// Picoseconds since the start.
    pub time: u64,
    /// Detector that saw it.
    pub detector: u8,
    /// Picoseconds since the laser's pulse.
    pub microtime: u32,
}

/// A molecule on its way.
struct Molecule {
    species: Species,
    place: [f64; 3],
    random: ChaCha8Rng,
    /// Steps until it has to be looked at again.
    away: u64,
    /// Photons' worth of light until the next one.
    until: f64,
}

impl Diffusion {
    /// Checks that it can be simulated.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that is not above 0 (the background: below 0) or no number, more than 64
    /// detectors, more molecules or steps than can be counted, or more photons in a step than there is memory for.
    pub fn check(&self) -> Result<()> {
        let above = [
            ("molecules", self.molecules),
            ("diffusion time", self.diffusion_time),
            ("axial ratio", self.axial_ratio.unwrap_or(1.0)),
            ("brightness", self.brightness),
            ("lifetime", self.lifetime),
            ("duration", self.seconds),
        ];
        let second = self.second.map(|second| {
            [
                ("second molecules", second.molecules),
                ("second diffusion time", second.diffusion_time),
                ("second brightness", second.brightness),
                ("second lifetime", second.lifetime),
            ]
        });
        for (what, value) in above.into_iter().chain(second.into_iter().flatten()) {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::invalid(format!("{what} {value}: expected one above 0")));
            }
        }
        if !(self.background.is_finite() && self.background >= 0.0) {
            let reason = format!("background {}: expected one of at least 0", self.background);
            return Err(Error::invalid(reason));
        }
        if !(1..=64).contains(&self.detectors) {
            return Err(Error::invalid(format!("{} detectors: expected 1 to 64", self.detectors)));
        }
        for Species { molecules, .. } in self.species() {
            let number = self.number(molecules);
            if number > 1e6 {
                return Err(Error::invalid(format!(
                    "{molecules} molecules in the focus, {number:.0} in the box: expected at most a million there"
                )));
            }
            if number < 1.0 {
                return Err(Error::invalid(format!(
                    "{molecules} molecules in the focus: expected at least {:.3}, one in the box",
                    molecules / number
                )));
            }
        }
        if self.seconds > 1e6 || self.seconds / self.step() > 1e12 {
            return Err(Error::invalid(format!(
                "{} s of a diffusion time of {} s: expected at most a million seconds, and 10^10 \
                 diffusion times",
                self.seconds, self.diffusion_time
            )));
        }
        let [mean, most] = self.step_photons();
        if mean.max(most) > MOST_PHOTONS {
            return Err(Error::invalid(format!(
                "brightness {} and background {}: expected at most {MOST_PHOTONS} photons in a step of {:e} s, \
                 found {:.3e}",
                self.brightness,
                self.background,
                self.step(),
                mean.max(most)
            )));
        }
        Ok(())
    }

    /// Photons of a step: of all in the mean, and of a molecule in the focus's centre.
    fn step_photons(&self) -> [f64; 2] {
        let molecules: f64 = self.species().map(|species| self.signal(species)).sum();
        let background = self.background * self.detectors as f64;
        let brightest = self.species().map(|species| species.brightness).fold(0.0, f64::max);
        [(molecules + background) * self.step(), brightest * self.step()]
    }

    /// Kinds of molecules.
    fn species(&self) -> impl Iterator<Item = Species> {
        let &Self { molecules, diffusion_time, brightness, lifetime, second, .. } = self;
        let first = Species { molecules, diffusion_time, brightness, lifetime };
        std::iter::once(first).chain(second)
    }

    /// Photons a second of a kind of molecules.
    fn signal(&self, species: Species) -> f64 {
        species.brightness * species.molecules * self.seen()
    }

    /// Expected `g(tau) - 1` at a lag in seconds.
    pub fn expected(&self, lag: f64) -> f64 {
        // Light without correlation makes it less.
        let signal: f64 = self.species().map(|species| self.signal(species)).sum();
        let all = signal + self.background * self.detectors as f64;
        let of = |species: Species| {
            let share = self.signal(species) / all;
            share.powi(2) * self.expected_of(&species, lag)
        };
        self.species().map(of).sum()
    }

    /// Expected `g(tau) - 1` of a kind of molecules alone at a lag in seconds.
    pub fn expected_of(&self, species: &Species, lag: f64) -> f64 {
        let x = lag / species.diffusion_time;
        let axial = self.axial_ratio.map_or(1.0, |ratio| (1.0 + x / ratio.powi(2)).sqrt());
        1.0 / species.molecules / (1.0 + x) / axial
    }

    /// Part of its brightness in the centre that a molecule in the effective volume has in the mean.
    fn seen(&self) -> f64 {
        self.light() / self.volume()
    }

    /// Integral of the light over space.
    fn light(&self) -> f64 {
        let half: f64 = PI / 2.0;
        self.axial_ratio.map_or(half, |ratio| half.powf(1.5) * ratio)
    }

    /// The effective volume, or area.
    pub(super) fn volume(&self) -> f64 {
        self.axial_ratio.map_or(PI, |ratio| PI.powf(1.5) * ratio)
    }

    /// Least length of the box along the axis; 0 in a plane.
    pub(super) fn depth(&self) -> f64 {
        self.axial_ratio.map_or(0.0, |ratio| SIDE * ratio)
    }

    /// Sides of the box.
    fn sides(&self) -> [f64; 3] {
        let [space, plane] = LARGER;
        let (side, axes, most) = match self.axial_ratio {
            Some(_) => (SIDE, 3, space),
            None => (PLANE, 2, plane),
        };
        let along = self.axial_ratio.unwrap_or(0.0);
        let room = side.powi(axes) * self.axial_ratio.unwrap_or(1.0);
        let molecules: f64 = self.species().map(|species| species.molecules).sum();
        let larger = (MOLECULES * self.volume() / (molecules * room)).powf(1.0 / f64::from(axes));
        let side = side * larger.clamp(1.0, most);
        [side, side, side * along]
    }

    /// Molecules in the box, for `molecules` in the focus.
    fn number(&self, molecules: f64) -> f64 {
        let [x, y, z] = self.sides();
        let room = x * y * if self.axial_ratio.is_some() { z } else { 1.0 };
        (molecules * room / self.volume()).round()
    }

    /// Seconds of a step, of the quickest molecules.
    fn step(&self) -> f64 {
        let quickest = self.species().map(|species| species.diffusion_time);
        quickest.fold(f64::INFINITY, f64::min) / STEPS
    }

    /// Makes the photons, in the order of time and a piece at a time; returns how many.
    ///
    /// # Errors
    /// As for [`check`](Self::check); errors of `take`, which end it.
    pub fn photons(&self, mut take: impl FnMut(&[Photon]) -> Result<()>) -> Result<u64> {
        self.check()?;
        let sides = self.sides();
        let kinds = self.species().flat_map(|species| {
            std::iter::repeat_n(species, self.number(species.molecules) as usize)
        });
        let mut molecules: Vec<Molecule> = (0..)
            .zip(kinds)
            .map(|(number, species)| {
                let mut random = random(self.seed, number);
                let place = sides.map(|side| (random.random::<f64>() - 0.5) * side);
                let until = random.sample(Exp1);
                Molecule { species, place, random, away: 0, until }
            })
            .collect();
        let mut background = random(self.seed, BACKGROUND);
        let rate = self.background * self.detectors as f64 * self.step();
        let mut until: f64 = background.sample::<f64, _>(Exp1);
        let steps = (self.seconds / self.step()).ceil() as u64;
        let end = (self.seconds * 1e12) as u64;
        let mut count = 0;
        // Shorter where there are more photons.
        let most = (MOST_PHOTONS / self.step_photons()[0]).clamp(1.0, PIECE as f64) as u64;
        for first in (0..steps).step_by(most as usize) {
            let piece = most.min(steps - first);
            let mut photons: Vec<Photon> = molecules
                .par_iter_mut()
                .flat_map_iter(|molecule| molecule.go(self, first, piece))
                .collect();
            // From photon to photon.
            while rate > 0.0 && until < piece as f64 * rate {
                let time = self.picoseconds(first as f64 + until / rate);
                let microtime = background.random_range(0..PERIOD) as u32;
                photons.push(self.photon(&mut background, time, microtime));
                until += background.sample::<f64, _>(Exp1);
            }
            until -= piece as f64 * rate;
            photons.retain(|photon| photon.time < end);
            photons.par_sort_unstable();
            count += photons.len() as u64;
            take(&photons)?;
        }
        Ok(count)
    }

    /// A time in steps.
    fn picoseconds(&self, steps: f64) -> u64 {
        (steps * self.step() * 1e12) as u64
    }

    /// A photon that some detector sees.
    fn photon(&self, random: &mut impl Rng, time: u64, microtime: u32) -> Photon {
        let detector = if self.detectors == 1 { 0 } else { random.random_range(0..self.detectors) };
        Photon { time, detector: detector as u8, microtime }
    }

    /// Writes the photons to a file: PTU where its name ends in `.ptu` (T3 of a MultiHarp, a channel for each
    /// detector), else a NumPy file of arrival times, uint64, in picoseconds; and a description beside it, in
    /// JSON. Returns how many there are.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`check`](Self::check); [`Error::File`] for a NumPy file of several detectors;
    /// [`Error::Io`] when a file cannot be written; what `progress`, which is told the seconds that are done,
    /// returns.
    pub fn write(&self, path: &Path, mut progress: impl FnMut(f64) -> Result<()>) -> Result<u64> {
        self.check()?;
        let beside = description(path)?;
        let mut done = |photons: &[Photon]| {
            progress(photons.last().map_or(0.0, |photon| photon.time as f64 / 1e12))
        };
        let count;
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("ptu")) {
            let (period, microtime) = (PERIOD as f64 * 1e-12, MICROTIME as f64 * 1e-12);
            let mut writer = ptu::Writer::create(path, period, microtime)?;
            count = self.photons(|photons| {
                for photon in photons {
                    let microtime = photon.microtime / MICROTIME as u32;
                    writer.append(photon.detector, photon.time / PERIOD, microtime as u16)?;
                }
                done(photons)
            })?;
            writer.finish()?;
        } else if self.detectors > 1 {
            let reason = format!("{} detectors: expected a name that ends in .ptu", self.detectors);
            return Err(Error::file(path, reason));
        } else {
            let mut writer = Writer::appending(path, Dtype::Uint64, &[])?;
            count = self.photons(|photons| {
                let times = photons.iter().flat_map(|photon| photon.time.to_le_bytes());
                writer.append(&times.collect::<Vec<_>>())?;
                done(photons)
            })?;
            writer.finish()?;
        }
        if let Some(beside) = beside {
            #[derive(Serialize)]
            struct Description<'a> {
                diffusion: &'a Diffusion,
                photons: u64,
            }
            PartialFile::write_json(&beside, &Description { diffusion: self, photons: count })?;
        }
        Ok(count)
    }
}

impl Molecule {
    /// Advances by `steps` from step `first` on, and returns the photons.
    fn go(&mut self, all: &Diffusion, first: u64, steps: u64) -> Vec<Photon> {
        let mut photons = Vec::new();
        let sides = all.sides();
        let axes = if all.axial_ratio.is_some() { 3 } else { 2 };
        let ratio = all.axial_ratio.unwrap_or(1.0);
        let Species { diffusion_time, brightness, lifetime, .. } = self.species;
        // A step's variance along an axis: 2 D t = w^2 t / (2 tau_D).
        let sigma = (all.step() / (2.0 * diffusion_time)).sqrt();
        let (brightness, lifetime) = (brightness * all.step(), (lifetime * 1e12).round());
        let mut step = 0;
        while step < steps {
            if self.away > 0 {
                let passed = self.away.min(steps - step);
                self.away -= passed;
                step += passed;
                continue;
            }
            let [x, y, z] = self.place;
            let (across, along) = ((x * x + y * y).sqrt(), z.abs());
            let distance = (across - DARK).max(along - DARK * ratio);
            // The next place is so many steps later.
            let mut taken = 1;
            if distance > 0.0 {
                taken = ((distance / (FAR * sigma)).powi(2) as u64).clamp(1, PIECE);
            } else {
                let light = brightness * (-2.0 * (across * across + (along / ratio).powi(2))).exp();
                self.until -= light;
                while self.until <= 0.0 {
                    let time = all.picoseconds((first + step) as f64 + self.random.random::<f64>());
                    let lived: f64 = self.random.sample(Exp1);
                    let microtime = (ARRIVAL + lifetime * lived) % PERIOD as f64;
                    photons.push(all.photon(&mut self.random, time, microtime as u32));
                    self.until += self.random.sample::<f64, _>(Exp1);
                }
            }
            let sigma = sigma * (taken as f64).sqrt();
            for (place, side) in self.place.iter_mut().zip(sides).take(axes) {
                let normal: f64 = self.random.sample(StandardNormal);
                *place += sigma * normal;
                *place -= side * (*place / side).round();
            }
            self.away = taken - 1;
            step += 1;
        }
        photons
    }
}
