//! Powers of beams on a grid, of a plan's table `[[grid]]`.

use std::{ops::Range, path::PathBuf};

use corrust::{
    Device, Error, GridBeamformer, Result,
    beamform::grid::Kernel,
    correlate::Shape,
    run::{GridBeamsOf, Run},
};

use crate::cli::{
    commands::{
        beamform::FIL,
        correlate::product::Shared,
        filterbank::Scaling,
        grid::{Dishes, Output},
    },
    input::product_input::{Finish, ProductInput, needs_array},
    options::{
        run_files::{ending, input, output},
        selection::{ChannelRange, of_channels},
    },
    terminal::numbers::count,
};

/// Powers of beams on a grid, and their file.
#[derive(Clone, Debug, clap::Args)]
pub struct GridTable {
    /// File of the dishes, as of corrust beamform --grid.
    #[arg(long, value_parser = input())]
    pub dishes: PathBuf,
    /// NumPy file, or filterbank file of one beam.
    #[arg(long, value_parser = output())]
    pub output: PathBuf,
    /// Channels to form beams of, A to B - 1; an array file describes all of them.
    #[arg(long)]
    channels: Option<ChannelRange>,
    /// Powers of f16.
    #[arg(long)]
    half: bool,
    #[arg(long, default_value_t)]
    kernel: Kernel,
    /// The one beam `Q,P` of a filterbank file.
    #[arg(long, value_delimiter = ',')]
    beam: Vec<usize>,
    #[arg(long, hide = true, value_parser = input())]
    array: Option<PathBuf>,
    #[command(flatten)]
    scaling: Scaling,
}

impl GridTable {
    /// Whether the file says when its times are.
    pub fn is_dated(&self) -> bool {
        ending(&self.output) == FIL
    }

    /// Forgets the array file where nothing asks for it.
    #[must_use]
    pub fn dated(mut self) -> Self {
        if !self.is_dated() {
            self.array = None;
        }
        self
    }

    /// Channels of `all` to form beams of.
    fn channels(&self, all: usize) -> Result<Range<usize>> {
        ChannelRange::of(self.channels.as_ref(), "--channels", all)
    }

    /// Times of a block.
    fn times(&self) -> usize {
        self.scaling.integrate.map_or(1, |times| usize::try_from(times.get()).unwrap_or(usize::MAX))
    }

    /// The plan for the recording.
    fn plan(&self, place: &ProductInput<'_>) -> Result<GridBeamformer> {
        let Shape { inputs, channels, encoding, .. } = place.shape;
        let dishes = Dishes::read(&self.dishes)?;
        let [_, polarisations, of_polarisation] = dishes.streams(channels, inputs);
        let array = place.array.unwrap_or(&place.said);
        array.check_beams([polarisations, of_polarisation], place.polarisations)?;
        let axes = [self.channels(channels)?.len(), polarisations, of_polarisation];
        let plan = dishes.builder(place.source, axes)?;
        let plan =
            plan.encoding(encoding).half(self.half).kernel(self.kernel).integrate(self.times());
        match place.gpus {
            [] => plan.device(Device::Cpu),
            [gpu] => plan.gpu(gpu.clone()),
            several => {
                return Err(Error::invalid(format!(
                    "device {}: {} devices, expected one for beams on a grid",
                    place.device,
                    several.len()
                )));
            }
        }
        .build()
    }

    /// Bytes that are written and operations that are done for `times` times.
    pub fn load(&self, place: &ProductInput<'_>, times: u64) -> Result<(f64, f64)> {
        let shape = *self.plan(place)?.shape();
        let blocks = (times / shape.block_times as u64) as f64;
        let beams = (shape.channels * shape.beams()) as f64;
        let bytes = if self.half { 2.0 } else { 4.0 };
        // Two transforms by their definition: of rows to 2N columns, of those to 2M beams.
        let rows = (shape.rows * shape.columns * 2 * shape.columns) as f64;
        let columns = (shape.beams() * shape.rows) as f64;
        let transforms = times as f64 * (shape.channels * shape.polarisations) as f64;
        Ok((bytes * beams * blocks, 8.0 * transforms * (rows + columns)))
    }

    /// Bytes that are held on the device.
    pub fn held(&self, place: &ProductInput<'_>, times: u64) -> Result<f64> {
        let shape = *self.plan(place)?.shape();
        let blocks = times.div_ceil(shape.block_times as u64) as f64;
        Ok(8.0 * shape.weights() as f64 + 4.0 * blocks * (shape.channels * shape.beams()) as f64)
    }

    /// Adds the product.
    pub fn add(&self, name: &str, place: &ProductInput<'_>, run: &mut Run<'_>) -> Result<Finish> {
        if place.recorded == u64::MAX && !self.is_dated() {
            return Err(Error::invalid(
                "beams on a grid of a stream of unknown length: expected seconds or times in live, or a filterbank \
                 file, which may have any length",
            ));
        }
        let array = place.array.filter(|_| self.is_dated());
        if self.is_dated() && array.is_none() {
            return Err(needs_array(&self.output));
        }
        let plan = self.plan(place)?;
        let shape = *plan.shape();
        let all = place.shape.channels;
        let channels = self.channels(all)?;
        let array = array.map(|array| of_channels(array, all, &channels)).transpose()?;
        let chosen = (&self.beam[..], &self.scaling);
        let output = Output::create(&self.output, &shape, place.recorded, array.as_ref(), chosen)?;
        let files = Shared::new(output);
        let theirs = files.clone();
        run.add(
            name,
            GridBeamsOf::new(plan, move |beams| theirs.with(|output| output.write(beams)))
                .of_channels(channels),
        )?;
        Ok(Box::new(move |times| {
            files.take().finish(times, shape.block_times)?;
            let blocks = times / shape.block_times as u64;
            Ok(format!("{}, {}", count(shape.beams(), "beam"), count(blocks, "block")))
        }))
    }
}
