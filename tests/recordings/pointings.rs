//! Weights of pointings.

use corrust::{Beamformer, Device, Encoding, beamform};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The voltages of a wave add up in the beam that points where it comes from, and only there.
#[test]
fn weights_point_beams() {
    let (dishes, channels) = (64, 4);
    let frequencies: Vec<f64> = (0..channels).map(|c| 400e6 + 50e6 * c as f64).collect();
    let mut rng = StdRng::seed_from_u64(4);
    let positions: Vec<[f64; 3]> = (0..dishes)
        .map(|_| [rng.random_range(-80.0..80.0), rng.random_range(-80.0..80.0), 0.0])
        .collect();
    let directions: Vec<[f64; 3]> = [[0.0, 0.0], [0.3, 0.1], [-0.2, 0.4], [0.05, -0.5]]
        .map(|[x, y]: [f64; 2]| [x, y, (1.0 - x * x - y * y).sqrt()])
        .to_vec();

    let delays = beamform::delays(&positions, &directions);
    let weights = beamform::weights(delays.view(), &frequencies, 1).unwrap();
    assert_eq!(weights.dim(), (channels, 1, directions.len(), dishes, 2));
    let mut plan = Beamformer::builder(dishes, directions.len())
        .channels(channels)
        .encoding(Encoding::Ci4)
        .device(Device::Cpu)
        .build()
        .unwrap();
    plan.set_weights(weights.as_slice().unwrap()).unwrap();
    // In phase, 64 dishes of amplitude 5 and weight 127 sum to 40640.
    plan.set_shifts(&vec![13; channels * directions.len()]).unwrap();

    for (source, direction) in directions.iter().enumerate() {
        let voltages: Vec<u8> = frequencies
            .iter()
            .flat_map(|frequency| positions.iter().map(move |r| (frequency, r)))
            .map(|(frequency, r)| {
                let path = r[0] * direction[0] + r[1] * direction[1] + r[2] * direction[2];
                let phase = std::f64::consts::TAU * frequency * path / 299_792_458.0;
                let nibble = |value: f64| (5.0 * value).round() as i8 as u8 & 15;
                nibble(phase.cos()) << 4 | nibble(phase.sin())
            })
            .collect();
        let beams = plan.beamform(&voltages).unwrap();
        for ((beam, channel, _, _), byte) in beams.samples.indexed_iter() {
            let [re, im] = [*byte as i8 >> 4, (byte << 4) as i8 >> 4].map(f64::from);
            let amplitude = re.hypot(im);
            assert!(
                (amplitude > 4.0) == (beam == source),
                "source {source}, beam {beam}, channel {channel}: amplitude {amplitude}"
            );
        }
    }
    assert!(beamform::weights(delays.view(), &[f64::NAN], 1).is_err());
}
