//! A closed queueing network: customers (warps or blocks) go round between a delay and stations.
//!
//! Mean value analysis (Reiser and Lavenberg, J. ACM 27, 1980) with constant service: a customer that
//! arrives finds half of the service under way done, so it waits for `queue - utilisation / 2` services.

/// Service and number of sharers of a station: it serves `share` networks like this one.
#[derive(Clone, Copy, Debug)]
pub struct Station {
    /// Time that a customer needs of it.
    pub demand: f64,
    /// Networks that use it.
    pub share: f64,
}

/// Customers a time of `customers` that spend `delay` elsewhere and pass `stations` one after another.
pub fn in_turn(customers: u32, delay: f64, stations: &[f64]) -> f64 {
    let mut queues = vec![0.0; stations.len()];
    let mut rate = 0.0_f64;
    for n in 1..=customers.max(1) {
        let stays: Vec<f64> = stations
            .iter()
            .zip(&queues)
            .map(|(demand, queue)| demand * (1.0 + waiting(*queue, rate * demand)))
            .collect();
        rate = f64::from(n) / (delay + stays.iter().sum::<f64>());
        for demand in stations.iter().filter(|demand| **demand > 0.0) {
            rate = rate.min(1.0 / demand);
        }
        queues = stays.iter().map(|stay| rate * stay).collect();
    }
    rate
}

/// The same for warps of a scheduler: `own` is its own station; the service at `shared` stations is
/// part of the delay already, so that they only make warps wait.
pub fn beside(customers: f64, delay: f64, own: f64, shared: &[Station]) -> f64 {
    let customers = customers.max(1.0);
    let whole = customers as u32;
    let rest = (customers > f64::from(whole)).then_some(customers);
    let (mut own_queue, mut queues) = (0.0, vec![0.0; shared.len()]);
    let mut rate = 0.0_f64;
    for n in (1..=whole).map(f64::from).chain(rest) {
        let own_stay = own * (1.0 + waiting(own_queue, rate * own));
        let waits: Vec<f64> = shared
            .iter()
            .zip(&queues)
            .map(|(s, queue)| s.demand * waiting_of(queue * s.share, rate * s.demand * s.share))
            .collect();
        rate = n / (delay + own_stay + waits.iter().sum::<f64>());
        rate = rate.min(1.0 / own.max(f64::MIN_POSITIVE));
        for s in shared.iter().filter(|s| s.demand > 0.0) {
            rate = rate.min(1.0 / (s.demand * s.share));
        }
        own_queue = rate * own_stay;
        queues = shared.iter().zip(&waits).map(|(s, wait)| rate * (s.demand + wait)).collect();
    }
    rate
}

/// Services that an arriving customer waits for.
fn waiting(queue: f64, utilisation: f64) -> f64 {
    (queue - 0.5 * utilisation.min(1.0)).max(0.0)
}

/// The same where the load may be that of several networks.
fn waiting_of(queue: f64, utilisation: f64) -> f64 {
    (queue - 0.5 * utilisation).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_customer_waits_for_nobody() {
        assert!((in_turn(1, 6.0, &[3.0, 1.0]) - 0.1).abs() < 1e-12);
        let station = Station { demand: 1.0, share: 4.0 };
        assert!((beside(1.0, 6.0, 4.0, &[station]) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn many_customers_come_to_the_slowest_station() {
        assert!((in_turn(100, 6.0, &[3.0, 1.0]) - 1.0 / 3.0).abs() < 1e-9);
        let station = Station { demand: 2.0, share: 4.0 };
        assert!((beside(64.0, 6.0, 4.0, &[station]) - 1.0 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn more_customers_are_never_slower() {
        let rates = (1..40).map(|n| in_turn(n, 50.0, &[3.0, 2.0])).collect::<Vec<_>>();
        assert!(rates.windows(2).all(|w| w[1] >= w[0]), "{rates:?}");
    }
}
