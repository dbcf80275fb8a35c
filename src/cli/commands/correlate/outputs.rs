//! Files that dumps go to.

use std::path::Path;

use corrust::{
    Encoding, Error, Result,
    correlate::{Shape, baselines},
    format::{
        array::Array,
        npy::{Dtype, Writer},
        uvh5,
    },
    quantise::VanVleck,
    run::{Behind, Integration},
};

use crate::cli::options::run_files::all;

/// Files of a correlation, and facts for them.
pub struct Names<'a> {
    pub output: &'a Path,
    /// Facts of the array, for UVH5.
    pub array: Option<&'a Array>,
    pub counts: Option<&'a Path>,
    /// Level of UVH5's compression.
    pub gzip: Option<u8>,
    /// Times from one dump to the next, where there are several.
    pub spacing: Option<u64>,
    /// Correction of sums to coefficients, if coefficients are written.
    pub van_vleck: Option<VanVleck>,
}

/// The files that dumps go to, which are written while the next dump is summed.
pub struct Outputs(Behind<Integration, Files>);

/// The files themselves.
struct Files {
    visibilities: Output,
    counts: Option<Writer>,
    /// Channels and baselines whose times are counted: dispersion makes them differ from one channel to the other,
    /// delays, raw samples and bits from one baseline to the other.
    counted: [usize; 2],
    van_vleck: Option<VanVleck>,
}

/// File for visibilities.
enum Output {
    Npy(Writer),
    Uvh5(Box<uvh5::Writer>),
}

impl Outputs {
    pub fn create(
        shape: &Shape,
        gates: Option<usize>,
        counted: [Option<usize>; 2],
        phased: bool,
        names: Names<'_>,
    ) -> Result<Self> {
        // Coefficients are pairs of float32, as sums of cf16 are.
        let encoding = if names.van_vleck.is_some() { Encoding::Cf16 } else { shape.encoding };
        let shape = &Shape { encoding, ..*shape };
        let baselines = baselines(shape.inputs);
        let dtype = if shape.encoding.is_integer() { Dtype::Int64 } else { Dtype::Float32 };
        let gate_axis: Vec<usize> = gates.into_iter().collect();
        let visibilities = match names.array {
            Some(_) if gates.is_some() => {
                let reason = "is to be UVH5, which knows no gates: expected a name ending in .npy, \
                              because of the gates";
                return Err(Error::file(names.output, reason));
            }
            Some(array) => {
                if let (Some(times), Some(interval)) = (names.spacing, array.sample_time) {
                    uvh5::Writer::told_apart(names.output, times as f64 * interval)?;
                }
                let phased = phased && array.phase_center.is_some();
                let options = uvh5::Options { phased, gzip: names.gzip };
                let file = uvh5::Writer::with_options(names.output, array, shape, options)?;
                Output::Uvh5(Box::new(file))
            }
            None => {
                let entry = [&gate_axis[..], &[shape.channels, baselines, 2]].concat();
                Output::Npy(Writer::appending(names.output, dtype, &entry)?)
            }
        };
        let entry: Vec<usize> =
            gate_axis.into_iter().chain(counted.into_iter().flatten()).collect();
        let counts =
            names.counts.map(|path| Writer::appending(path, Dtype::Uint64, &entry)).transpose()?;
        let counted = counted.map(|count| count.unwrap_or(1));
        let files = Files { visibilities, counts, counted, van_vleck: names.van_vleck };
        Ok(Self(Behind::new(files, |files, integration| files.append(integration))?))
    }

    /// Writes dumps, and leaves others in their place, whose memory can be used again.
    pub fn append(&mut self, integration: &mut Integration) -> Result<()> {
        self.0.put(integration)
    }

    /// Completes the files.
    pub fn finish(self) -> Result<()> {
        let Files { visibilities, counts, .. } = self.0.finish()?;
        let visibilities = match visibilities {
            Output::Npy(file) => file.finish(),
            Output::Uvh5(file) => file.finish(),
        };
        all([visibilities, counts.map_or(Ok(()), Writer::finish)])
    }
}

impl Files {
    fn append(&mut self, integration: &Integration) -> Result<()> {
        let Integration { start, times, .. } = *integration;
        for dump in &integration.gates {
            let coefficients = self.van_vleck.as_ref().map(|known| known.coefficients(dump));
            let coefficients = coefficients.transpose()?;
            let visibilities = coefficients.as_ref().unwrap_or(&dump.visibilities);
            match &mut self.visibilities {
                Output::Npy(file) => file.append(visibilities.bytes())?,
                Output::Uvh5(file) => file.append(visibilities, &dump.valid, start, times)?,
            }
            if let Some(counts) = &mut self.counts {
                let [channels, baselines] = self.counted;
                let of =
                    |channel| (0..baselines).map(move |baseline| dump.valid.get(channel, baseline));
                let each: Vec<u64> = (0..channels).flat_map(of).collect();
                counts.append(bytemuck::cast_slice(&each))?;
            }
        }
        Ok(())
    }
}
