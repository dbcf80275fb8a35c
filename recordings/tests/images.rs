//! Analyses of simulated stacks against what was simulated.
#![cfg(all(feature = "images", feature = "simulate"))]

use corrust_recordings::{
    images::{Brightness, Detector, Rics, Spatial},
    simulate::{Diffusion, Scan},
};
use rayon::prelude::*;

/// Molecules of a membrane, or in space, under a beam.
fn scan(axial_ratio: Option<f64>, diffusion_time: f64) -> Scan {
    let diffusion = Diffusion {
        molecules: 2.0,
        diffusion_time,
        axial_ratio,
        brightness: 2e6,
        ..Diffusion::default()
    };
    Scan { diffusion, rows: 64, columns: 64, frames: 200, pixel: 0.25, dwell: 5e-6, line: 4e-4 }
}

/// The simulated diffusion constant and number lie within four standard errors of the fit's, which are below a tenth.
#[test]
fn rics_finds_the_molecules_that_were_simulated() {
    const WAIST: f64 = 0.3;
    for (axial_ratio, diffusion_time) in [(None, 1e-3), (Some(3.0), 3e-3)] {
        let scan = scan(axial_ratio, diffusion_time);
        let mut spatial = Spatial::new(64, 64, (12, 16), 1).unwrap();
        let (mut parts, mut frames) = (Vec::new(), 0);
        scan.frames(|frame| {
            spatial.add(frame)?;
            frames += 1;
            if frames % (scan.frames / 10) == 0 {
                parts.push(spatial.take_blocks()?);
            }
            Ok(())
        })
        .unwrap();
        let model = Rics {
            pixel: WAIST * scan.pixel,
            dwell: scan.dwell,
            line: scan.line,
            waist: WAIST,
            kappa: axial_ratio,
            offset: true,
        };
        let (_, fitted) = model.fit_parts(&parts).unwrap();
        println!("{fitted:?}");
        for ([value, error], expected) in
            [(fitted.diffusion, WAIST * WAIST / (4.0 * diffusion_time)), (fitted.n, 2.0)]
        {
            assert!(
                error < 0.1 * value && (value - expected).abs() < 4.0 * error,
                "{expected}: {fitted:?}"
            );
        }
    }
}

/// Pulls, differences from what was simulated by their stated errors, have a mean near 0: the offset takes up what the mean of a
/// frame takes from all lags. That mean is known to a third; with means that depend on the lag it is above 1 for `n`.
#[test]
fn pulls_of_rics_are_centred() {
    const SEEDS: u64 = 8;
    const WAIST: f64 = 0.25;
    let fits = (201..201 + SEEDS).into_par_iter().map(|seed| {
        let mut scan = scan(None, 1e-3);
        scan.diffusion.seed = seed;
        (scan.frames, scan.pixel, scan.dwell, scan.line) = (100, 0.2, 10e-6, 768e-6);
        let mut spatial = Spatial::new(64, 64, (16, 32), 1).unwrap();
        let (mut parts, mut frames) = (Vec::new(), 0);
        scan.frames(|frame| {
            spatial.add(frame)?;
            frames += 1;
            if frames % 10 == 0 {
                parts.push(spatial.take_blocks()?);
            }
            Ok(())
        })
        .unwrap();
        let model = Rics {
            pixel: WAIST * scan.pixel,
            dwell: scan.dwell,
            line: scan.line,
            waist: WAIST,
            kappa: None,
            offset: true,
        };
        let (_, fitted) = model.fit_parts(&parts).unwrap();
        let pull = |[value, error]: [f64; 2], truth: f64| (value - truth) / error;
        [pull(fitted.n, 2.0), pull(fitted.diffusion, WAIST * WAIST / 4e-3)]
    });
    let pulls: Vec<[f64; 2]> = fits.collect();
    for (place, name) in ["n", "D"].into_iter().enumerate() {
        let mean = pulls.iter().map(|pulls| pulls[place]).sum::<f64>() / SEEDS as f64;
        println!("{name}: mean pull {mean}");
        assert!(mean.abs() < 0.75, "{name}: {mean} {pulls:?}");
    }
}

/// Molecules that stand still while a pixel is seen: the brightness is the focus's mean, `b / 2^(3/2)` times the dwell time
/// in space and `b / 2` in a plane.
#[test]
fn brightness_is_that_of_the_molecules() {
    for (axial_ratio, share) in [(None, 0.5), (Some(3.0), 0.353_553_390_593)] {
        let diffusion = Diffusion {
            molecules: 1.5,
            diffusion_time: 1e-3,
            axial_ratio,
            brightness: 1e6,
            background: 0.0,
            ..Diffusion::default()
        };
        // A line time beyond many diffusion times: frames are independent.
        let scan = Scan {
            diffusion,
            rows: 8,
            columns: 8,
            frames: 1500,
            pixel: 1.0,
            dwell: 1e-6,
            line: 1e-2,
        };
        let mut maps = Brightness::new(8, 8).unwrap();
        scan.frames(|frame| maps.add(frame)).unwrap();
        let found = maps.maps(&Detector::default()).unwrap();
        let mean = |quantity: usize| found.slice(ndarray::s![.., .., quantity]).mean().unwrap();
        // Number times brightness is the mean of counts, exactly.
        let brightness = mean(3);
        assert!((brightness / share - 1.0).abs() < 0.05, "{brightness}");
        // N molecules in the effective volume give N b share counts.
        assert!((mean(0) / (1.5 * share) - 1.0).abs() < 0.05, "{}", mean(0));
    }
}
