//! The figure of `corrust channelise --response`.

use std::path::Path;

use corrust::{Result, channelise::Builder};

use crate::cli::pictures::chart::{Axis, Look, chart};
use crate::cli::pictures::plot::{SIZE, save};
use crate::cli::terminal::say::tell;

/// Largest distance of tones from the channel's centre, in channels, and tones for each channel.
const REACH: i32 = 4;
const FINENESS: i32 = 64;
/// The lowest power that is drawn, decibels.
const FLOOR: f64 = -140.0;

/// Draws the response of a filter bank's channels to a file.
pub fn draw(path: &Path, builder: &Builder) -> Result<()> {
    let offsets =
        (-REACH * FINENESS..=REACH * FINENESS).map(|n| f64::from(n) / f64::from(FINENESS));
    let offsets: Vec<f64> = offsets.collect();
    let response = builder.response(&offsets)?;
    let decibels = |power: f64| (10.0 * power.log10()).max(FLOOR);
    let line = |powers: &[f64]| powers.iter().copied().map(decibels).collect();
    let shape = builder.shape()?;
    let look = Look {
        title: format!("Response of a channel of {}, {} taps", shape.channels, shape.taps),
        y: "power (dB)",
        range: FLOOR..5.0,
        lines: "",
        wide: 1,
    };
    let lines = [
        ("measured".to_owned(), line(&response.measured)),
        ("designed".to_owned(), line(&response.designed)),
    ];
    let edge = offsets.iter().position(|offset| *offset == 0.5).expect("it is among them");
    let [measured, designed] = response.leakage(1.0).map(decibels);
    let axis = Axis { values: offsets, name: "channels from the centre" };
    save(path, SIZE, |root| chart(root, &axis, &look, &lines, true))?;
    tell(format_args!(
        "response of {} channels, {} taps: {:.2} dB at a channel's edge, at most {measured:.1} dB from the \
         next channel's centre on (designed: {:.2}, {designed:.1}): {}",
        shape.channels,
        shape.taps,
        decibels(response.measured[edge]),
        decibels(response.designed[edge]),
        path.display()
    ));
    Ok(())
}
