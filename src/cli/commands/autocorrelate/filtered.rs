//! Components of different decays (FLCS).

use std::{path::PathBuf, time::Instant};

use corrust::{
    Device, Error, Result,
    autocorrelate::{Shape, Weighted, WeightedArrivals},
    format::npy::{Dtype, Writer},
    photons::{Arrived, Decays, Filters, Photons, decays, patterns},
};

use super::{
    Args, Ends, Output, note_late, say_empty_blocks, say_left_out,
    tables::{Curves, pycorrfit_files},
};
use crate::cli::options::given;
use crate::cli::terminal::numbers::{count, digits};
use crate::cli::terminal::progress::Progress;
use crate::cli::terminal::say::{tell, warn};

impl Args {
    /// Filters of a file's channels, by the patterns that are asked for.
    fn filters(&self, path: &PathBuf) -> Result<Filters> {
        let options = self.options();
        let own = decays(path, &options, None)?;
        let wanted: Vec<_> = self.photons.pattern.iter().map(|arg| arg.0.clone()).collect();
        let table = patterns(path, &options, &own, &wanted)?;
        let filters = Filters::new(&own, table.view())
            .map_err(|error| Error::file(path, error.to_string()))?;
        say_shares(&own, &filters);
        Ok(filters)
    }

    /// Correlates the components of each channel.
    pub(super) fn run_filtered(self) -> Result<()> {
        given::warn_unused(&["kernel"], "weighted photons have one kernel, expected no --kernel");
        given::refuse(
            &["trace", "trace-bin"],
            "components have no trace, expected a run without --pattern",
        )?;
        if ![Device::Auto, Device::Cpu].map(Into::into).contains(&self.device) {
            let reason =
                format!("--device {}: weighted photons are the CPU's, expected cpu", self.device);
            return Err(Error::invalid(reason));
        }
        let [path] = &self.inputs[..] else {
            return Err(Error::invalid("--pattern of several files: expected one file of photons"));
        };
        let filters = self.filters(path)?;
        let (counts, dwell) = self.open()?;
        let instants = counts.recording.times();
        let components = filters.components();
        let masked = counts.masked;
        let channels = &counts.sensors[..counts.sensors.len() - usize::from(masked)];
        let names: Vec<_> = channels
            .iter()
            .flat_map(|channel| {
                (0..components).map(move |component| format!("{channel}, component {component}"))
            })
            .collect();
        let shape = Shape {
            sensors: names.len() + usize::from(masked),
            groups: self.groups.unwrap_or(10),
            lags: self.lags.unwrap_or(32),
            scheme: self.scheme.unwrap_or_default(),
        };
        let mut plan = Weighted::new(shape, &self.asked_pairs(shape.sensors, masked)?)?;
        let mut pairs = plan.pairs().to_vec();
        pairs.truncate(pairs.len() - usize::from(masked));
        let pycorrfit =
            self.pycorrfit.as_ref().map_or(Vec::new(), |path| pycorrfit_files(path, &pairs));
        self.files(&pycorrfit).check(self.existing)?;
        let writer = Output::create(&self.output, &shape, Dtype::Float64)?;
        let mut blocks =
            self.blocks.map(|count| Ends::<f64>::new(count, instants, masked)).transpose()?;

        let start = Instant::now();
        sum(counts.recording, &filters, &mut plan, blocks.as_mut())?;
        let seconds = start.elapsed().as_secs_f64();
        note_late(&counts.late);

        let all_sums = plan.sums();
        writer.write(&all_sums)?;
        let (sums, mask) = all_sums.split_mask(masked);
        let errors = blocks.as_ref().map(Ends::errors);
        let curves = Curves {
            sums: &sums,
            mask: mask.as_ref(),
            pairs: &pairs,
            errors: errors.as_ref(),
            blocks: blocks.as_ref().map(Ends::parts),
            dwell,
            trace: None,
            sensors: &names,
        };
        self.write_curves(&curves, &pycorrfit)?;
        if let Some(path) = &self.photons.weights {
            let mut writer = Writer::with_shape(path, Dtype::Float64, filters.weights.shape())?;
            let weights = filters.weights.as_standard_layout();
            writer.write_at(0, bytemuck::cast_slice(weights.as_slice().expect("as it lies")))?;
            writer.finish()?;
        }
        let device = format!(
            "CPU, {} of {}",
            count(components, "component"),
            count(channels.len(), "channel")
        );
        let length = instants as f64 * dwell;
        self.say_done(&sums, names.len(), (instants, length), seconds, &device);
        say_left_out(mask.as_ref(), dwell);
        say_empty_blocks(blocks.as_ref());
        Ok(())
    }
}

/// Sums up a recording's photons, weighted, with its blocks.
fn sum(
    mut recording: Box<dyn Photons>,
    filters: &Filters,
    plan: &mut Weighted,
    mut blocks: Option<&mut Ends<f64>>,
) -> Result<()> {
    let progress =
        Progress::over("autocorrelating", plan.shape().sensors as f64, recording.times());
    let mut arrived = Arrived { with_microtimes: true, ..Arrived::default() };
    let mut weights = Vec::new();
    let (stretch, mut position) = (recording.stretch(), 0);
    loop {
        let most = blocks.as_ref().map_or(u64::MAX, |blocks| blocks.next() - position);
        if recording.read_times(stretch.min(most), &mut arrived)? == 0 {
            return Ok(());
        }
        filters.weigh(&arrived, &mut weights);
        let times = arrived.times.iter();
        let mut times: Vec<&[u32]> =
            times.flat_map(|times| vec![&times[..]; filters.components()]).collect();
        // A mask is one sensor.
        times.truncate(weights.len());
        let weights: Vec<&[f64]> = weights.iter().map(Vec::as_slice).collect();
        let instants = arrived.instants;
        plan.accumulate(WeightedArrivals { instants, times: &times, weights: &weights })?;
        position += instants;
        progress.set(position);
        if let Some(blocks) = blocks.as_mut().filter(|blocks| blocks.next() == position) {
            blocks.end(&plan.sums())?;
        }
    }
}

/// Says how many photons of each channel belong to each component.
fn say_shares(own: &Decays, filters: &Filters) {
    for (channel, name) in own.channels.iter().enumerate() {
        let photons = own.counts.row(channel);
        let all: f64 = photons.iter().map(|&count| count as f64).sum();
        let shares = (0..filters.components()).map(|component| {
            let weights = filters.weights.slice(ndarray::s![channel, component, ..]);
            let own: f64 = weights.iter().zip(photons).map(|(w, &n)| w * n as f64).sum();
            if own <= 0.0 {
                warn(format_args!("{name}: component {component} has no photons there"));
            }
            format!("{} %", digits(100.0 * own / all))
        });
        tell(format_args!("  {name}: components have {}", shares.collect::<Vec<_>>().join(", ")));
    }
}
