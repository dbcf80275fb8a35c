//! Cases of a GPU's [table](Tuning): the kernels that a plan may choose, at equal sizes.

use corrust_host::{
    Encoding, Error, Result,
    autocorrelate::Kernel as CountsKernel,
    correlate::Kernel,
    device::{self},
    tuning::{self, Basis, Correlation, Order, Range, Tuning},
};

use crate::{
    autocorrelate,
    beamform::{self, Tile},
    case::{BenchDevice, Case},
    correlate,
    record::{Facts, Row},
};

/// Numbers of inputs: the most of a tile's padding, and whole tiles.
const INPUTS: [usize; 11] = [16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048];
/// Numbers of inputs for the simulator, whose times mean nothing.
const SIMULATED_INPUTS: [usize; 2] = [16, 48];

/// Instants of blocks of counts.
const INSTANTS: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];
/// Numbers of instants for the simulator.
const SIMULATED_INSTANTS: [usize; 1] = [64];

/// Least gain over the prediction by speeds for which a kernel gets a range of its own.
const WORTH: f64 = 1.02;

/// Cases for the table of a place's GPU.
///
/// # Errors
/// [`Error::Invalid`] where there is none.
pub fn cases(place: &BenchDevice) -> Result<Vec<Box<dyn Case>>> {
    let facts = facts(place)?;
    let (inputs, instants) = match place.simulated() {
        true => (&SIMULATED_INPUTS[..], &SIMULATED_INSTANTS[..]),
        false => (&INPUTS[..], &INSTANTS[..]),
    };
    let mut cases = Vec::new();
    for encoding in [Encoding::Ci8, Encoding::Ci4, Encoding::Cf16, Encoding::B1] {
        cases.extend(inputs.iter().map(|&inputs| correlate::candidates(encoding, inputs, place)));
    }
    let tiles = Tile::all().filter(|tile| facts.runs(tile.target));
    cases.extend(tiles.map(|tile| beamform::candidate(&tile, 1, place)));
    cases.push(beamform::candidate(&Tile::of_passes(), 2, place));
    cases.extend(instants.iter().map(|&instants| autocorrelate::candidates(instants, place)));
    Ok(cases)
}

fn facts(place: &BenchDevice) -> Result<&device::Facts> {
    let gpu = place.gpu.as_ref();
    gpu.map(|gpu| gpu.facts()).ok_or_else(|| Error::invalid("--tune: found a CPU, expected a GPU"))
}

/// Tuning table from measurements of [`cases`]; entries that were not measured come from the GPU's known table.
///
/// # Errors
/// [`Error::Invalid`] where there is no GPU.
pub fn table(place: &BenchDevice, machine: &Facts, rows: &[Row]) -> Result<Tuning> {
    let facts = facts(place)?;
    let known = Tuning::nearest(facts);
    let mut table = Tuning {
        model: model(&facts.name),
        capability: facts.capability,
        basis: if place.model.is_some() { Basis::Modelled } else { Basis::Measured },
        machine: [
            // A model is no device that was measured.
            (if place.model.is_some() { "chip" } else { "device" }, &machine.device),
            ("driver", machine.driver.as_ref().unwrap_or(&String::new())),
            ("date", &machine.date),
            ("version", &machine.version),
            ("commit", &machine.commit),
        ]
        .map(|(name, fact)| (name.to_owned(), fact.clone()))
        .into(),
        ..known.clone()
    };
    let correlate = &mut table.correlate;
    for (encoding, correlation) in [
        (Encoding::Ci8, &mut correlate.ci8),
        (Encoding::Ci4, &mut correlate.ci4),
        (Encoding::Cf16, &mut correlate.cf16),
        (Encoding::B1, &mut correlate.b1),
    ] {
        let measured = measured(rows, encoding);
        if measured.iter().any(|one| one.order == Order::Rows && one.kernel == Kernel::Mma64) {
            *correlation = correlation_of(&measured);
        }
    }
    beams(&mut table.beamform, rows);
    counts(&mut table.autocorrelate, rows);
    Ok(table)
}

/// The model that a GPU of some name is: one that is known, else the word of it with a number.
fn model(name: &str) -> String {
    let known = Tuning::built_in().iter().find(|table| table.is_of(name));
    let mut words = name.split(|letter: char| !letter.is_alphanumeric());
    let numbered = words.find(|word| word.contains(|letter: char| letter.is_ascii_digit()));
    known.map_or(numbered.unwrap_or(name), |table| &table.model).to_owned()
}

/// A correlator's time.
#[derive(Clone, Copy, Debug)]
struct Correlated {
    order: Order,
    inputs: usize,
    kernel: Kernel,
    /// For each time and channel.
    seconds: f64,
}

impl Correlated {
    /// Baselines a second, padding included.
    fn speed(&self) -> f64 {
        self.kernel.computed_baselines(self.inputs).unwrap_or(0) as f64 / self.seconds
    }
}

fn measured(rows: &[Row], encoding: Encoding) -> Vec<Correlated> {
    let measured = rows.iter().filter(|row| row.encoding == encoding.name()).filter_map(|row| {
        let order = match &row.what[..] {
            correlate::DELIVERED => Order::Delivered,
            correlate::ROWS => Order::Rows,
            _ => return None,
        };
        let work = row.size("C")? * row.size("T")?;
        Some(Correlated {
            order,
            inputs: row.size("N")? as usize,
            kernel: row.kernel.parse().ok()?,
            seconds: row.seconds.median / work as f64,
        })
    });
    measured.collect()
}

/// Section of the correlator: its kernels' speeds at the most inputs, where padding is least, and ranges up
/// to the numbers of inputs where another kernel than these speeds say was quicker, as far as it is the quickest:
/// between the numbers that were measured, speeds of rows say little about delivered samples.
fn correlation_of(measured: &[Correlated]) -> Correlation {
    let of = |order| measured.iter().filter(move |one| one.order == order);
    let most = of(Order::Rows).map(|one| one.inputs).max();
    let whole = of(Order::Rows).filter(|one| Some(one.inputs) == most);
    let speeds = whole.map(|one| (one.kernel, digits(one.speed() * 1e-12)));
    let mut correlation = Correlation { ranges: Vec::new(), speeds: speeds.collect() };
    for order in [Order::Delivered, Order::Rows] {
        let mut sizes: Vec<usize> = of(order).map(|one| one.inputs).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut least = 1;
        for &inputs in &sizes {
            let here = || of(order).filter(move |one| one.inputs == inputs);
            let said = here()
                .filter_map(|one| {
                    let computed = one.kernel.computed_baselines(inputs)? as f64;
                    Some((one, computed / correlation.speeds.get(&one.kernel)?))
                })
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let quickest = here().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let (Some((said, _)), Some(quickest)) = (said, quickest) else { continue };
            let end = (Some(&inputs) != sizes.last()).then_some(inputs);
            let kernel = quickest.kernel;
            match correlation.ranges.last_mut() {
                Some(last)
                    if (last.samples, last.kernel) == (order, kernel)
                        && last.inputs.1 == Some(least - 1) =>
                {
                    last.inputs.1 = end;
                }
                _ if said.seconds > WORTH * quickest.seconds => {
                    let range = Range { samples: order, inputs: (least, end), kernel };
                    correlation.ranges.push(range);
                }
                _ => {}
            }
            least = inputs + 1;
        }
    }
    correlation
}

/// Section of the beamformer.
fn beams(known: &mut tuning::Beamform, rows: &[Row]) {
    // Microseconds of 2^20 times.
    let cost = |tile: &Tile, passes: usize| {
        let is_its = |row: &&Row| {
            row.system == "beamform"
                && row.case.strip_prefix(tile.name).is_some_and(|rest| rest.starts_with(','))
                && row.size("D") == Some((passes * tile.dishes) as u64)
        };
        let row = rows.iter().find(is_its)?;
        let times = (row.size("F")? * row.size("P")? * row.size("T")?) as f64;
        Some(row.seconds.median * 1e6 * (1 << 20) as f64 / times)
    };
    for tile in Tile::all() {
        if let Some(cost) = cost(&tile, 1) {
            known.tiles.insert(tile.name.to_owned(), digits(cost));
        }
    }
    let wide = Tile::of_passes();
    if let (Some(one), Some(two)) = (cost(&wide, 1), cost(&wide, 2)) {
        known.pass = digits(((two - 2.0 * one) / wide.beams as f64).max(0.0));
    }
}

/// Section of the autocorrelator: the least instants from which tensor cores were quicker throughout.
fn counts(known: &mut tuning::Autocorrelate, rows: &[Row]) {
    let seconds = |instants: u64, kernel: CountsKernel| {
        let is_its = |row: &&Row| {
            (&row.system[..], &row.what[..]) == ("autocorrelate", "kernel")
                && row.size("instants") == Some(instants)
                && row.kernel == kernel.name()
        };
        rows.iter().find(is_its).map(|row| row.seconds.median)
    };
    let mut all: Vec<u64> = rows.iter().filter_map(|row| row.size("instants")).collect();
    all.sort_unstable();
    all.dedup();
    let mut from = all.last().map(|most| 2 * most);
    for instants in all.into_iter().rev() {
        let [packets, cores] = [CountsKernel::Packets, CountsKernel::TensorCores]
            .map(|kernel| seconds(instants, kernel));
        match (packets, cores) {
            (Some(packets), Some(cores)) if cores < packets => from = Some(instants),
            (Some(_), Some(_)) => break,
            _ => return,
        }
    }
    if let Some(from) = from {
        known.tensor_core_instants = from as usize;
    }
}

/// Three significant digits: more is noise.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Times;

    fn seconds(order: Order, inputs: usize, kernel: Kernel, seconds: f64) -> Correlated {
        Correlated { order, inputs, kernel, seconds }
    }

    #[test]
    fn speeds_are_those_of_whole_tiles_and_ranges_say_where_they_mislead() {
        use Kernel::{Mma64, Wgmma128};
        use Order::{Delivered, Rows};
        // wgmma-128 is twice as quick over whole tiles; a table of speeds alone takes mma-64 up to 64 inputs,
        // wgmma-128 above: 1 tile of 16384 for 3 of 4096.
        let mut all = Vec::new();
        for (inputs, tiles_64, tiles_128) in [(64, 1.0, 1.0), (128, 3.0, 1.0), (256, 10.0, 3.0)] {
            all.push(seconds(Rows, inputs, Mma64, tiles_64 * 4096e-12));
            all.push(seconds(Rows, inputs, Wgmma128, tiles_128 * 16384e-12 / 2.0));
            // The corner turn that one needs and the other does not.
            let turn = if inputs == 256 { 0.0 } else { 9000e-12 };
            all.push(seconds(Delivered, inputs, Mma64, tiles_64 * 4096e-12 + turn));
            all.push(seconds(Delivered, inputs, Wgmma128, tiles_128 * 16384e-12 / 2.0));
        }
        let found = correlation_of(&all);
        assert_eq!(found.speeds, [(Mma64, 1.0), (Wgmma128, 2.0)].into());
        // The range extends over numbers where the speeds choose the same kernel, up to where another is quicker.
        let range = Range { samples: Delivered, inputs: (1, None), kernel: Wgmma128 };
        assert_eq!(found.ranges, [range]);
        let mut ends = all.clone();
        ends.push(seconds(Delivered, 256, Mma64, 1000e-12));
        let found = correlation_of(&ends);
        assert_eq!(found.ranges[0].inputs, (1, Some(128)));
        // A range that ends at the most inputs holds above them, too; neighbours are one range.
        for one in &mut all {
            if (one.order, one.kernel) == (Rows, Mma64) && one.inputs > 64 {
                one.seconds /= 10.0;
            }
        }
        let found = correlation_of(&all);
        assert_eq!(found.speeds[&Mma64], 10.0);
        assert!(found.ranges.iter().all(|range| range.samples == Delivered), "{found:?}");
        assert_eq!(found.ranges.len(), 1);
        assert_eq!(found.ranges[0].inputs, (1, None));
    }

    #[test]
    fn instants_are_those_from_which_tensor_cores_are_quicker_throughout() {
        let row = |instants: u64, kernel: CountsKernel, median: f64| Row {
            system: "autocorrelate".to_owned(),
            what: "kernel".to_owned(),
            kernel: kernel.to_string(),
            sizes: [("instants".to_owned(), instants)].into(),
            seconds: Times::of(vec![median]),
            ..Row::default()
        };
        let threshold = |cores: [f64; 4]| {
            let mut rows = Vec::new();
            for (instants, cores) in [128, 256, 512, 1024].into_iter().zip(cores) {
                rows.push(row(instants, CountsKernel::Packets, 1.0));
                rows.push(row(instants, CountsKernel::TensorCores, cores));
            }
            let mut known = Tuning::built_in()[0].autocorrelate;
            counts(&mut known, &rows);
            known.tensor_core_instants
        };
        assert_eq!(threshold([2.0, 2.0, 0.5, 0.1]), 512);
        assert_eq!(threshold([0.5, 2.0, 0.5, 0.1]), 512);
        assert_eq!(threshold([0.5; 4]), 128);
        assert_eq!(threshold([2.0; 4]), 2048);
    }

    #[test]
    fn a_tile_alone_is_chosen_and_models_have_names() {
        for tile in Tile::all() {
            let tiles = tile.alone().beamform.tiles;
            let cheapest = tiles.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
            assert_eq!(cheapest.0, tile.name);
        }
        for (name, expected) in [
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("NVIDIA A100-SXM4-80GB", "A100"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA RTX A6000", "A6000"),
            ("simulator", "simulator"),
        ] {
            assert_eq!(model(name), expected);
        }
    }
}
