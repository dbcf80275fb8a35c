//! Dumps over recordings equal the oracle's plain loops, whatever the cuts, integrations, gaps, gates and
//! shifts; they can be watched and stopped, and an error ends them.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use corrust::{
    Correlator, Device, Encoding, Error, Layout, Result,
    correlate::{DROP, Shape},
    format::{Block, Recording},
    run::{Dumps, Integration, Progress, Reader, Source, Wants},
    samples::Missing,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::support::oracle::correlate as oracle;

/// A recording in memory.
#[derive(Clone)]
struct Held {
    samples: oracle::Block,
    gaps: Vec<Range<u64>>,
    position: usize,
    /// Times that have been given samples.
    read: Arc<std::sync::Mutex<u64>>,
    /// Time at which reading fails, or the recording ends before it should.
    fails: Option<usize>,
    ends: Option<usize>,
}

impl Held {
    /// Random samples of `times` times, `gaps` of them missing.
    fn new(shape: Shape, times: usize, gaps: Vec<Range<u64>>, rng: &mut StdRng) -> Self {
        let Shape { inputs, channels, encoding, layout } = shape;
        let bytes = (0..times * shape.bytes_per_time()).map(|_| rng.random()).collect();
        let samples = oracle::Block { inputs, channels, times, encoding, layout, bytes };
        Self { samples, gaps, position: 0, read: Arc::default(), fails: None, ends: None }
    }

    fn is_missing(&self, time: usize) -> bool {
        self.gaps.iter().any(|gap| gap.contains(&(time as u64)))
    }

    fn boxed(&self) -> Box<dyn Recording> {
        Box::new(self.clone())
    }
}

impl Recording for Held {
    fn shape(&self) -> Shape {
        let oracle::Block { inputs, channels, encoding, layout, .. } = self.samples;
        Shape { inputs, channels, encoding, layout }
    }

    fn times(&self) -> u64 {
        self.samples.times as u64
    }

    fn interval(&self) -> Option<f64> {
        None
    }

    fn read_block(&mut self, times: usize, block: &mut Block) -> Result<usize> {
        if self.fails.is_some_and(|time| self.position + times > time) {
            return Err(Error::file("held.raw", "is on fire: expected a file"));
        }
        let end = self.ends.unwrap_or(self.samples.times).min(self.position + times);
        let first = std::mem::replace(&mut self.position, end);
        block.samples = self.samples.cut(first, end).bytes.into();
        block.times = end - first;
        // Bytes of what is missing mean nothing.
        let missing = (first..end).filter(|&time| self.is_missing(time));
        block.missing =
            missing.map(|time| Missing::times(time - first..time + 1 - first)).collect();
        *self.read.lock().unwrap() += block.times as u64;
        Ok(block.times)
    }

    fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn skip(&mut self, times: u64) -> Result<()> {
        self.position += times as usize;
        Ok(())
    }
}

/// A shape of two channels and three inputs.
fn shape(encoding: Encoding, layout: Layout) -> Shape {
    Shape { inputs: 3, channels: 2, encoding, layout }
}

fn plan(shape: Shape, gates: usize, shifts: &[usize]) -> Correlator {
    Correlator::builder(shape.inputs, shape.channels)
        .encoding(shape.encoding)
        .layout(shape.layout)
        .device(Device::Cpu)
        .gates(gates)
        .shifts(shifts)
        .build()
        .unwrap()
}

/// Ranges of times, ascending and apart, some of them long.
fn gaps(times: u64, rng: &mut StdRng) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut time = rng.random_range(0..20);
    while time < times && rng.random_range(0..5) > 0 {
        let longest = if rng.random() { 4 } else { 60 };
        let end = (time + rng.random_range(1..=longest)).min(times);
        gaps.push(time..end);
        time = end + rng.random_range(1..50);
    }
    // Recordings end with samples.
    gaps.retain(|gap| gap.end < times);
    gaps
}

/// Checks an integration against plain loops over all samples.
fn check(
    dump: &Integration,
    held: &Held,
    numbers: Option<&[u8]>,
    shifts: Option<&[usize]>,
    what: &str,
) {
    let oracle::Block { inputs, channels, .. } = held.samples;
    let all = dump.start as usize..(dump.start + dump.times) as usize;
    let missing = all.clone().filter(|&time| held.is_missing(time)).count();
    assert_eq!(dump.missing, missing as u64, "{what}: missing");
    let kept = all.clone().filter(|&time| numbers.is_none_or(|numbers| numbers[time] != DROP));
    assert_eq!(dump.kept, kept.count() as u64, "{what}: kept");
    let mut fed = 0;
    for (gate, found) in dump.gates.iter().enumerate() {
        let times: Vec<usize> = all
            .clone()
            .filter(|&time| numbers.is_none_or(|numbers| usize::from(numbers[time]) == gate))
            .collect();
        let expected =
            oracle::correlate(inputs, channels, times.iter().copied(), |channel, input, time| {
                let time = time.checked_sub(shifts.map_or(0, |shifts| shifts[input]))?;
                (!held.is_missing(time)).then(|| held.samples.sample(channel, input, time))
            });
        let sums = found.visibilities.integer().unwrap();
        for (channel, row) in expected.iter().enumerate() {
            for (baseline, v) in row.iter().enumerate() {
                let sum = sums[[channel, baseline]];
                let found = (sum.re as f64, sum.im as f64, found.valid.get(channel, baseline));
                assert_eq!(found, (v.re, v.im, v.count), "{what}: gate {gate} of {dump:?}");
            }
        }
        fed += found.times;
    }
    assert!(fed <= dump.kept && fed + dump.skipped >= dump.kept, "{what}: {fed} times fed");
}

#[test]
fn dumps_equal_plain_loops() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut skipped, mut shifted_into_gaps, mut partial) = (0, 0, 0);
    for case in 0..300 {
        let encoding = [Encoding::Ci8, Encoding::Ci4, Encoding::Ci4Offset][case % 3];
        let layout = [Layout::Tcn, Layout::Cnt][case / 3 % 2];
        let shape = shape(encoding, layout);
        let times = rng.random_range(1..300);
        let gaps = gaps(times as u64, &mut rng);
        let held = Held::new(shape, times, gaps, &mut rng);
        let gates = rng.random_range(1..4_u8);
        let numbers: Option<Vec<u8>> = rng.random::<bool>().then(|| {
            let number = |number| if number == gates { DROP } else { number };
            (0..times).map(|_| number(rng.random_range(0..=gates))).collect()
        });
        let shifts: Option<Vec<usize>> = rng
            .random::<bool>()
            .then(|| (0..shape.inputs).map(|_| rng.random_range(0..40)).collect());
        // A partial dump may be the only one.
        let keep_partial = rng.random::<bool>();
        let longest = if keep_partial { times + 10 } else { times };
        let integration = rng.random_range(1..=longest as u64);
        let block = rng.random_range(1..70);
        let what =
            format!("case {case}, {times} times in dumps of {integration}, blocks of {block}");

        let gate_count = if numbers.is_some() { usize::from(gates) } else { 1 };
        let mut correlator = plan(shape, gate_count, shifts.as_deref().unwrap_or_default());
        // Integrations begun before are not in the first dump.
        if shifts.is_none() && numbers.is_none() {
            correlator.accumulate(&held.samples.bytes[..]).unwrap();
        }
        let mut dumps =
            Dumps::of(Reader::over(held.boxed(), block), &mut correlator).integrate(integration);
        if let Some(numbers) = &numbers {
            dumps = dumps.gates(numbers);
        }
        if keep_partial {
            dumps = dumps.keep_partial();
        }
        // Memory is used again, and is not that of the dump before.
        let mut dump = Integration::default();
        let mut count = 0;
        while dumps.next_into(&mut dump).unwrap() {
            assert_eq!((dump.index, dump.start), (count, count * integration), "{what}");
            let left = times as u64 - dump.start;
            assert_eq!(
                (dump.times, dump.gates.len()),
                (integration.min(left), gate_count),
                "{what}"
            );
            partial += u32::from(dump.times < integration);
            check(&dump, &held, numbers.as_deref(), shifts.as_deref(), &what);
            skipped += dump.skipped;
            if dump.skipped > 0 && shifts.is_some() {
                shifted_into_gaps += 1;
            }
            count += 1;
        }
        let (whole, all) = (times as u64 / integration, (times as u64).div_ceil(integration));
        assert_eq!(count, if keep_partial { all } else { whole }, "{what}");
        assert!(!dumps.next_into(&mut dump).unwrap(), "{what}: nothing comes after the end");
    }
    assert!(skipped > 100 && shifted_into_gaps > 10, "gaps take no time: {skipped}");
    assert!(partial > 50, "{partial} partial dumps");
}

#[test]
fn a_dump_has_its_own_memory_and_the_plan_may_be_too() {
    let mut rng = StdRng::seed_from_u64(2);
    let held = Held::new(shape(Encoding::Ci8, Layout::Tcn), 100, Vec::new(), &mut rng);
    let dumps = Dumps::over(held.boxed(), plan(held.shape(), 1, &[])).integrate(30);
    assert_eq!(dumps.correlator().shape(), &held.shape());
    let dumps: Vec<_> = dumps.map(Result::unwrap).collect();
    assert_eq!(dumps.len(), 3);
    dumps.iter().for_each(|dump| check(dump, &held, None, None, "collected"));
}

#[test]
fn progress_goes_from_none_to_all() {
    let mut rng = StdRng::seed_from_u64(3);
    let held = Held::new(shape(Encoding::Ci8, Layout::Cnt), 100, vec![4..6, 10..40], &mut rng);
    let mut reports = Vec::new();
    let dumps = Dumps::of(Reader::over(held.boxed(), 8), plan(held.shape(), 1, &[]))
        .integrate(30)
        .progress(|progress| reports.push(progress));
    assert_eq!(dumps.count(), 3);
    assert_eq!(reports.first(), Some(&Progress { done: 0, times: 90 }));
    assert_eq!(reports.last(), Some(&Progress { done: 90, times: 90 }));
    assert!(reports.len() > 9 && reports.is_sorted_by(|a, b| a.done < b.done), "{reports:?}");
}

#[test]
fn cancelling_ends_the_dumps_and_the_reading() {
    let mut rng = StdRng::seed_from_u64(4);
    let held = Held::new(shape(Encoding::Ci8, Layout::Tcn), 1000, Vec::new(), &mut rng);
    let cancel = Arc::new(AtomicBool::new(false));
    let mut correlator = plan(held.shape(), 1, &[]);
    let mut dumps = Dumps::of(Reader::over(held.boxed(), 8), &mut correlator)
        .integrate(20)
        .cancel(cancel.clone())
        .progress(|progress| cancel.store(progress.done >= 28, Ordering::Relaxed));
    check(&dumps.next().unwrap().unwrap(), &held, None, None, "before");
    let error = dumps.next().unwrap().unwrap_err();
    // The block from 24 to 32 is cut by no dump.
    assert!(matches!(error, Error::Cancelled { done: 32, times: 1000 }), "{error:?}");
    assert_eq!(error.to_string(), "cancelled at time 32 of 1000");
    assert!(dumps.next().is_none());
    drop(dumps);
    // In use, waiting, and being read, which may be done meanwhile.
    let read = *held.read.lock().unwrap();
    assert!(read <= 32 + 3 * 8, "{read} times were read");

    // The plan is as good as new.
    for dump in Dumps::over(held.boxed(), &mut correlator).integrate(300) {
        check(&dump.unwrap(), &held, None, None, "afterwards");
    }
    // All that was done stays done.
    let flag = AtomicBool::new(false);
    let dumps = Dumps::over(held.boxed(), &mut correlator)
        .cancel(&flag)
        .progress(|progress| flag.store(progress.done == progress.times, Ordering::Relaxed));
    assert!(dumps.collect::<Result<Vec<_>>>().is_ok());
}

#[test]
fn a_failing_reader_ends_the_dumps() {
    let mut rng = StdRng::seed_from_u64(5);
    let good = Held::new(shape(Encoding::Ci8, Layout::Tcn), 100, Vec::new(), &mut rng);
    let endings = [
        (Held { fails: Some(50), ..good.clone() }, "held.raw: is on fire: expected a file"),
        (Held { ends: Some(50), ..good.clone() }, "the recording ended at time 50 of 100"),
    ];
    for (held, message) in endings {
        let mut dumps =
            Dumps::of(Reader::over(held.boxed(), 10), plan(held.shape(), 1, &[])).integrate(20);
        for _ in 0..2 {
            check(&dumps.next().unwrap().unwrap(), &good, None, None, message);
        }
        assert_eq!(dumps.next().unwrap().unwrap_err().to_string(), message);
        assert!(dumps.next().is_none(), "{message}");
        let mut dump = Integration::default();
        assert!(!dumps.next_into(&mut dump).unwrap(), "{message}");
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_is_read() {
    let mut rng = StdRng::seed_from_u64(6);
    let held = Held::new(shape(Encoding::Ci8, Layout::Tcn), 10, Vec::new(), &mut rng);
    let dumps = || Dumps::over(held.boxed(), plan(held.shape(), 1, &[]));
    let bound = "expected 1 to 10, as the recording has 10 times";
    for (mut dumps, message) in [
        (dumps().integrate(0), format!("an integration of 0 times: {bound}")),
        (dumps().integrate(11), format!("an integration of 11 times: {bound}")),
        (
            dumps().gates(vec![0; 9]),
            "9 gate numbers: expected 10, one for each time of the recording".to_owned(),
        ),
    ] {
        assert_eq!(dumps.next().unwrap().unwrap_err().to_string(), message);
        assert!(dumps.next().is_none(), "{message}");
    }
    assert_eq!(*held.read.lock().unwrap(), 0);

    let other = plan(Shape { inputs: 4, ..held.shape() }, 1, &[]);
    let error = Dumps::over(held.boxed(), other).next().unwrap().unwrap_err();
    let message = "samples of 2 channels and 3 inputs: expected 2 and 4";
    assert_eq!(error.to_string(), message);
}

#[test]
fn pieces_are_the_recording() {
    let mut rng = StdRng::seed_from_u64(7);
    let layouts = [Layout::Tcn, Layout::Cnt];
    for (layout, soon) in layouts.into_iter().flat_map(|layout| [(layout, 5), (layout, u64::MAX)]) {
        let held = Held::new(shape(Encoding::Ci8, layout), 200, vec![20..23, 50..90], &mut rng);
        let mut source = Reader::over(held.boxed(), 16);
        source.begin(&Wants { end: 150, soon, ..Wants::default() });
        let (mut done, mut skipped) = (0, 0);
        while source.advance().unwrap() {
            let piece = source.piece();
            assert_eq!(piece.start, done);
            assert!(piece.samples.is_none() || piece.times <= soon.min(16));
            done += piece.times;
            let times = piece.start as usize..done as usize;
            let missing = times.clone().filter(|&time| held.is_missing(time)).count();
            assert_eq!(piece.missing(&(0..2), 0..3), 6 * missing as u64);
            let Some(samples) = piece.samples else {
                assert_eq!(piece.missing(&(1..2), 0..2), 2 * piece.times);
                skipped += piece.times;
                continue;
            };
            assert_eq!(samples.extents().times as u64, piece.times);
            let mut expected = held.samples.cut(times.start, times.end);
            for time in times.clone().filter(|&time| held.is_missing(time)) {
                for (channel, input) in (0..2).flat_map(|c| (0..3).map(move |i| (c, i))) {
                    let byte = 2 * expected.position(channel, input, time - times.start);
                    expected.bytes[byte..byte + 2].fill(0);
                }
            }
            assert_eq!(samples.gather(layout).unwrap(), expected.bytes);
        }
        assert_eq!((done, skipped), (150, 40), "{layout}, {soon}");
    }
}
