//! Snapshots of an autocorrelation into earlier ones.

use corrust::{Autocorrelator, Device, autocorrelate::Sums};

#[test]
fn a_snapshot_into_an_earlier_one_is_the_same_in_the_same_memory() {
    let counts: Vec<u8> = (0..3 * 200_u32).map(|k| (k * k % 251) as u8).collect();
    let plan = |sensors: usize, device| {
        Autocorrelator::builder(sensors).groups(3).lags(4).device(device).build().unwrap()
    };
    for device in [Device::Cpu, Device::Sim] {
        let (mut plan, mut other) = (plan(3, device), plan(2, device));
        let mut sums = Sums::default();
        // Another shape first.
        other.accumulate(&counts[..2 * 50]).unwrap();
        other.snapshot_into(&mut sums).unwrap();
        assert_eq!(sums, other.snapshot().unwrap());
        let mut memory = None;
        for part in counts.chunks(3 * 60) {
            plan.accumulate(part).unwrap();
            plan.snapshot_into(&mut sums).unwrap();
            assert_eq!(sums, plan.snapshot().unwrap(), "{device}");
            let arrays = [&sums.products, &sums.curve_products, &sums.direct, &sums.delayed];
            let now = (arrays.map(|array| array.as_ptr()), sums.points.as_ptr());
            assert_eq!(*memory.get_or_insert(now), now, "{device}");
        }
    }
}
