//! The clock that the power limit allows.
//!
//! A launch takes `memory` seconds that no clock changes and `cycles` of the multiprocessors. Its energy
//! goes with a power of the clock (voltage falls with it); the clock is the highest at which idle power
//! and energy by time stay within the limit.

use crate::chip::Energy;

/// Seconds of a launch at a clock, Hz.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Cycles of multiprocessors.
    pub cycles: f64,
    /// Seconds of device memory.
    pub memory: f64,
    /// Whether cycles come after the memory's seconds instead of beside them.
    pub after: bool,
}

impl Time {
    /// Seconds at a clock.
    pub fn at(&self, hertz: f64) -> f64 {
        let own = self.cycles / hertz;
        if self.after { self.memory + own } else { own.max(self.memory) }
    }
}

/// Clock, Hz: at most `highest`, at least 40 % of it.
pub fn clock(time: Time, joules: f64, highest: f64, limit: f64, energy: &Energy) -> f64 {
    let within = |hertz: f64| {
        let scale = (hertz / highest).powf(energy.exponent);
        energy.idle_watts + joules * scale / time.at(hertz) <= limit
    };
    if within(highest) {
        return highest;
    }
    let (mut low, mut high) = (0.4 * highest, highest);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if within(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Chip;

    #[test]
    fn the_clock_falls_until_the_limit_is_met() {
        let energy = Chip::named("h200").unwrap().energy.unwrap();
        let time = Time { cycles: 2e9, memory: 0.0, after: false };
        assert_eq!(clock(time, 100.0, 2e9, 700.0, &energy), 2e9);
        let hertz = clock(time, 800.0, 2e9, 700.0, &energy);
        let watts = energy.idle_watts + 800.0 * (hertz / 2e9).powf(1.2) / time.at(hertz);
        assert!((watts - 700.0).abs() < 0.01, "{watts} W at {hertz} Hz");
    }
}
