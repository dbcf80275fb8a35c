//! The dumps of a recording.

use std::{
    borrow::{Borrow, BorrowMut, Cow},
    sync::atomic::{AtomicBool, Ordering},
};

use corrust_host::{Correlator, Error, Result};

use super::{
    folding::Folding,
    read::Reader,
    run::Progress,
    source::Source,
    visibilities::{Integration, Integrator},
};
use crate::formats::Recording;

/// The dumps of a recording, one after the other: an iterator of [`Integration`]s, which an error ends.
/// [`next_into`](Self::next_into) takes memory for an integration that is used again.
///
/// Times that do not fill the last integration are left out, unless [it is kept](Self::keep_partial). The plan forgets the integration that it has
/// begun; what its delays hold comes first. It is the caller's (`&mut Correlator`) or the iterator's own.
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
///
/// use corrust_host::Correlator;
/// use corrust_recordings::{formats::{self, Options}, run::Dumps};
///
/// let recording = formats::open(&["scan.0000.raw", "scan.0001.raw"], Options::default())?;
/// let shape = recording.shape();
/// let mut correlator = Correlator::builder(shape.inputs, shape.channels)
///     .encoding(shape.encoding)
///     .layout(shape.layout)
///     .build()?;
/// let cancel = AtomicBool::new(false); // another thread may set it
/// let dumps = Dumps::over(recording, &mut correlator)
///     .integrate(1024)
///     .cancel(&cancel)
///     .progress(|progress| eprintln!("{} of {} times", progress.done, progress.times));
/// for dump in dumps {
///     let dump = dump?;
///     println!("from {}: {} of {} times missing", dump.start, dump.missing, dump.times);
///     let visibilities = &dump.gates[0].visibilities; // [channel][baseline]
/// }
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[must_use]
pub struct Dumps<'a, C = Correlator> {
    source: Box<dyn Source + 'a>,
    integrator: Integrator<'a, C>,
    /// Times that were taken, of all that are, and of the current piece.
    done: u64,
    end: Option<u64>,
    from: u64,
    cancel: Option<Box<dyn Fn() -> bool + Send + 'a>>,
    progress: Option<Box<dyn FnMut(Progress) + Send + 'a>>,
    ended: bool,
}

impl<'a, C: BorrowMut<Correlator>> Dumps<'a, C> {
    /// The one dump of all of a recording, which is read in blocks of 64 to 256 MiB.
    pub fn over(recording: Box<dyn Recording>, correlator: C) -> Self {
        let gpu = correlator.borrow().gpu().cloned();
        Self::of(Reader::channels(recording).locked_for(gpu.as_ref()), correlator)
    }

    /// The one dump of all times of a source, such as the spectra that an F-engine [makes](super::Channelise) of raw
    /// voltages. On a GPU spectra do not leave it: the correlator is to be on the same one.
    ///
    /// ```no_run
    /// use corrust_host::{Channeliser, Correlator, Devices};
    /// use corrust_recordings::{
    ///     formats::{self, Options},
    ///     run::{Channelise, Dumps, Reader},
    /// };
    ///
    /// let recording = formats::open_raw(&["scan.vdif"], Options::default())?;
    /// let raw = recording.shape();
    /// let gpus = Devices::default().open()?; // none: the CPU
    /// let channeliser = Channeliser::builder(raw.inputs, 1024)
    ///     .encoding(raw.encoding)
    ///     .layout(raw.layout)
    ///     .gpus(gpus.clone())
    ///     .build()?;
    /// let correlator = Correlator::builder(raw.inputs, 1024).gpus(gpus).build()?;
    /// let voltages = Reader::voltages(recording, channeliser.shape());
    /// let spectra = Channelise::over(voltages, channeliser)?;
    /// for dump in Dumps::of(spectra, correlator).integrate(4096) {
    ///     let visibilities = &dump?.gates[0].visibilities; // [channel][baseline]
    /// }
    /// # Ok::<(), corrust_host::Error>(())
    /// ```
    pub fn of(source: impl Source + 'a, correlator: C) -> Self {
        let channels = source.head().shape.channels;
        Self {
            source: Box::new(source),
            integrator: Integrator::new(correlator, 0..channels, None),
            done: 0,
            end: None,
            from: 0,
            cancel: None,
            progress: None,
            ended: false,
        }
    }

    /// A dump every `times` times, at least 1 and at most as many as the recording has; of bits whole words of
    /// them, or all.
    pub fn integrate(mut self, times: u64) -> Self {
        self.integrator.set_integration(times);
        self
    }

    /// Keeps the last dump where the recording ends before it has all of its times: [`Integration::times`] are those it has. An
    /// integration may then be longer than the recording.
    pub fn keep_partial(mut self) -> Self {
        self.integrator.set_keep_partial();
        self
    }

    /// Feeds a gated plan: the gate of each time of the recording, or [`DROP`](corrust_host::correlate::DROP).
    pub fn gates(mut self, numbers: impl Into<Cow<'a, [u8]>>) -> Self {
        self.integrator.set_numbers(numbers.into());
        self
    }

    /// Feeds a gated plan: the gates of a periodic signal, time 0 of which is the recording's first.
    pub fn folding(mut self, folding: Folding) -> Self {
        self.integrator.set_folding(folding);
        self
    }

    /// Stops with [`Error::Cancelled`], within a block, once `flag` is true: a reference to it, or an
    /// [`Arc`](std::sync::Arc).
    pub fn cancel(mut self, flag: impl Borrow<AtomicBool> + Send + 'a) -> Self {
        self.cancel = Some(Box::new(move || flag.borrow().load(Ordering::Relaxed)));
        self
    }

    /// Calls `tell` several times a block, and once all is done.
    pub fn progress(mut self, tell: impl FnMut(Progress) + Send + 'a) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }

    /// The plan.
    pub fn correlator(&self) -> &Correlator {
        self.integrator.correlator()
    }

    /// Reads the next integration into `integration`, whose memory is used again where it fits, and returns whether
    /// there was one.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Invalid`] for an integration of no times or of more than the
    /// recording's, more or fewer gate numbers than its times, or a recording that is not the plan's; as for
    /// [`Source::advance`], [`Correlator::accumulate_gated`] and [`Correlator::dump_gates`]. Nothing
    /// comes after an error, and what `integration` holds is of no use then.
    pub fn next_into(&mut self, integration: &mut Integration) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let found = self.read(integration);
        self.ended = !matches!(found, Ok(true));
        found
    }

    fn read(&mut self, to: &mut Integration) -> Result<bool> {
        let end = match self.end {
            Some(end) => end,
            None => {
                let wants = self.integrator.begin(self.source.head())?;
                self.source.begin(&wants);
                *self.end.insert(wants.end)
            }
        };
        while !self.integrator.is_over() {
            if !self.go_on(end)? {
                let is_last = self.integrator.is_last();
                if is_last {
                    self.integrator.dump_into(to)?;
                }
                return Ok(is_last);
            }
        }
        self.integrator.dump_into(to)?;
        Ok(true)
    }

    /// Adds some times; whether there were any.
    fn go_on(&mut self, end: u64) -> Result<bool> {
        let progress = Progress { done: self.done, times: end };
        if let Some(tell) = &mut self.progress {
            tell(progress);
        }
        if self.done == end {
            return Ok(false);
        }
        if self.cancel.as_ref().is_some_and(|is_set| is_set()) {
            let Progress { done, times } = progress;
            return Err(Error::Cancelled { done, times });
        }
        if self.from == self.source.piece().times {
            if !self.source.advance()? {
                return Ok(false);
            }
            self.from = 0;
        }
        let count = self.integrator.add(&self.source.piece(), self.from)?;
        self.from += count;
        self.done += count;
        Ok(count > 0)
    }
}

impl<C: BorrowMut<Correlator>> Iterator for Dumps<'_, C> {
    type Item = Result<Integration>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut integration = Integration::default();
        match self.next_into(&mut integration) {
            Ok(true) => Some(Ok(integration)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl<C: BorrowMut<Correlator>> std::iter::FusedIterator for Dumps<'_, C> {}
