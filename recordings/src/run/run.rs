//! The loop: a source, and the products that are made of it.

use std::time::{Duration, Instant};

use corrust_host::{Error, Result, samples::Shape};

use super::source::{Head, Piece, Recorded, Source, Wants};

/// Progress of the work on a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Times that are done, missing ones included.
    pub done: u64,
    /// Times to do.
    pub times: u64,
}

/// Something that is made of a stream's samples, in the order of their times.
pub trait Product<S: Recorded = Shape> {
    /// Says what it wants of a stream, before anything is read.
    ///
    /// # Errors
    /// The product's own: no product is made then.
    fn begin(&mut self, _head: &Head<S>) -> Result<Wants> {
        Ok(Wants::default())
    }

    /// Takes the next times. Host memory has been read when it returns; work on a GPU's memory goes in the order of its stream.
    ///
    /// # Errors
    /// The product's own, with which it ends.
    fn process(&mut self, piece: &Piece<S::View<'_>>) -> Result<()>;

    /// Completes it when all times have been taken.
    ///
    /// # Errors
    /// The product's own.
    fn finish(&mut self) -> Result<()>;
}

/// A product that is being made.
struct Running<'a, S: Recorded> {
    name: String,
    product: Box<dyn Product<S> + 'a>,
    wants: Wants,
    /// Time that the host worked on it.
    took: Duration,
}

/// Product of pieces in host memory.
struct Each<Take>(Take);

impl<S: Recorded, Take: FnMut(&Piece<S::View<'_>>) -> Result<()>> Product<S> for Each<Take> {
    fn process(&mut self, piece: &Piece<S::View<'_>>) -> Result<()> {
        if piece.host.is_none() && piece.samples.is_some() {
            return Err(Error::invalid(
                "samples of several GPUs' F-engine: expected one GPU, or the CPU",
            ));
        }
        (self.0)(&Piece { samples: piece.host, ..*piece })
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes products of one source: every sample is read once, and reaches the GPU once, where it is
/// [brought](crate::run::Bring) there.
///
/// ```
/// use corrust_host::{Correlator, Device, Encoding, Layout, Result, samples::Shape};
/// use corrust_recordings::{
///     formats::Recording,
///     run::{Reader, Run, Visibilities},
/// };
///
/// /// Dumps of 1024 and of 64 times.
/// fn slow_and_fast(recording: Box<dyn Recording>) -> Result<[usize; 2]> {
///     let Shape { inputs, channels, encoding, layout } = recording.shape();
///     let plan = || {
///         let builder = Correlator::builder(inputs, channels).encoding(encoding).layout(layout);
///         builder.device(Device::Cpu).build()
///     };
///     let (mut slow, mut fast) = (0, 0);
///     let mut run = Run::over(Reader::over(recording, 4096));
///     run.add("slow", Visibilities::new(plan()?, 0..channels, Some(1024), |_| {
///         slow += 1;
///         Ok(())
///     }))?;
///     run.add("fast", Visibilities::new(plan()?, 0..channels, Some(64), |_| {
///         fast += 1;
///         Ok(())
///     }))?;
///     let done = run.go(|_, _| {})?;
///     assert!(done.faults.is_empty());
///     Ok([slow, fast])
/// }
/// ```
pub struct Run<'a, S: Recorded = Shape> {
    source: Box<dyn Source<S> + 'a>,
    running: Vec<Running<'a, S>>,
    progress: Option<Box<dyn FnMut(u64) + 'a>>,
}

/// Summary of a run.
#[derive(Debug)]
pub struct Done {
    /// Times that were handed out.
    pub times: u64,
    /// Products that ended before the others, and why.
    pub faults: Vec<(String, Error)>,
    /// Time that the host worked on each other product; a stream that comes too fast waits for the longest of them.
    pub took: Vec<(String, Duration)>,
    /// Samples of each input that an F-engine clipped; none without one.
    pub clipped: Vec<u64>,
}

impl<'a, S: Recorded> Run<'a, S> {
    /// A run without products.
    pub fn over(source: impl Source<S> + 'a) -> Self {
        Self { source: Box::new(source), running: Vec::new(), progress: None }
    }

    /// Calls `tell` after every piece with the number of times that are done.
    #[must_use]
    pub fn progress(self, tell: impl FnMut(u64) + 'a) -> Self {
        Self { progress: Some(Box::new(tell)), ..self }
    }

    /// Adds a product, which [begins](Product::begin).
    ///
    /// # Errors
    /// As for [`Product::begin`].
    pub fn add(
        &mut self,
        name: impl Into<String>,
        mut product: impl Product<S> + 'a,
    ) -> Result<()> {
        let wants = product.begin(self.source.head())?;
        self.push(name.into(), product, wants);
        Ok(())
    }

    fn push(&mut self, name: String, product: impl Product<S> + 'a, wants: Wants) {
        let product = Box::new(product);
        self.running.push(Running { name, product, wants, took: Duration::ZERO });
    }

    /// Adds a product that is made of the pieces in host memory.
    pub fn each(
        &mut self,
        name: impl Into<String>,
        take: impl FnMut(&Piece<S::View<'_>>) -> Result<()> + 'a,
    ) {
        self.push(name.into(), Each(take), Wants { host: true, ..Wants::default() });
    }

    /// Makes all products, and returns the error of the first that failed.
    ///
    /// # Errors
    /// As for [`go`](Self::go), and that of the product.
    pub fn all(self) -> Result<Done> {
        let mut done = self.go(|_, _| {})?;
        if done.faults.is_empty() { Ok(done) } else { Err(done.faults.swap_remove(0).1) }
    }

    /// Makes all products. One that fails ends alone: `tell` gets its error at once, which is also returned at the end.
    ///
    /// # Errors
    /// As for [`Source::advance`]; [`Error::Invalid`] without a product.
    pub fn go(self, mut tell: impl FnMut(&str, &Error)) -> Result<Done> {
        let Self { mut source, mut running, mut progress } = self;
        let wants = running.iter().map(|each| each.wants).reduce(Wants::and);
        source.begin(&wants.ok_or_else(|| {
            Error::invalid("an observation without products: expected at least one")
        })?);
        let mut faults: Vec<(String, Error)> = Vec::new();
        let mut ended = |running: &mut Vec<Running<'_, S>>, results: Vec<Result<()>>| {
            let mut results = results.into_iter();
            running.retain(|each| match results.next() {
                Some(Err(error)) => {
                    tell(&each.name, &error);
                    faults.push((each.name.clone(), error));
                    false
                }
                _ => true,
            });
        };
        let mut times = 0;
        while !running.is_empty() && source.advance()? {
            let piece = source.piece();
            let take = |each: &mut Running<'_, S>| {
                let start = Instant::now();
                let result = each.product.process(&piece);
                each.took += start.elapsed();
                result
            };
            let results = running.iter_mut().map(take).collect();
            times = piece.start + piece.times;
            ended(&mut running, results);
            if let Some(tell) = &mut progress {
                tell(times);
            }
        }
        let results = running.iter_mut().map(|each| each.product.finish()).collect();
        ended(&mut running, results);
        let took = running.into_iter().map(|each| (each.name, each.took)).collect();
        Ok(Done { times, faults, took, clipped: source.clipped()? })
    }
}
