//! Predictions for `corrust plan`.

use std::{sync::Arc, time::Duration};

use corrust_host::{Encoding, Result};

use crate::{
    beamform,
    case::BenchDevice,
    channelise, correlate,
    limits::{self, Limits},
    measure::{Settings, measure},
    model::Model,
    record::{Facts, Record, Row, Times},
};

/// A record of predictions, as `corrust plan` takes it: the correlation of an encoding and a number of inputs, beams of
/// numbers of dishes and beams, and channelisers, those that are asked for, by the kernels that plans choose; and the
/// limits of the bus.
///
/// # Errors
/// Errors of the plans; [`corrust_host::Error::Device`] for a kernel that the chip does not run.
pub fn predicted(
    model: &Arc<Model>,
    correlation: Option<(Encoding, usize)>,
    beams: Option<(usize, usize)>,
    channelise: bool,
) -> Result<Record> {
    let place = BenchDevice::of_model(model.clone());
    let mut cases = Vec::new();
    if let Some((encoding, inputs)) = correlation {
        let options = correlate::Options {
            encodings: vec![encoding],
            inputs: vec![inputs],
            compare_at: Some(Vec::new()),
            ..Default::default()
        };
        cases.extend(correlate::cases(&options, &place));
    }
    if let Some(size) = beams {
        let options = beamform::Options { sizes: vec![size], ..Default::default() };
        cases.extend(beamform::cases(&options, &place));
    }
    if channelise {
        cases.extend(channelise::cases(&channelise::Options::default(), &place));
    }
    let limits = Limits::default();
    let settings = Settings { repeats: 1, sustain: Duration::ZERO, meter: None, limits: &limits };
    let mut rows = model_limits(model);
    for case in cases {
        rows.extend(measure(case.as_ref(), std::slice::from_ref(&place), &settings)?);
    }
    Ok(Record { machine: Facts::new(&place, None), rows })
}

/// Limits of a model that its chip's file gives: the bus, bytes a second, and integer multiply-adds, operations a second.
pub fn model_limits(model: &Model) -> Vec<Row> {
    let limit = |name: &str, useful_operations, bytes| Row {
        system: limits::SYSTEM.to_owned(),
        kernel: name.to_owned(),
        useful_operations,
        bytes,
        seconds: Times::predicted(1.0, (1.0, 1.0)),
        ..Row::default()
    };
    let bus = model.pcie_bytes_per_second();
    vec![
        limit("host to device", 0.0, bus),
        limit("device to host", 0.0, bus),
        limit("integer multiply-add", model.multiply_adds_per_second() * 2.0, 0.0),
    ]
}
