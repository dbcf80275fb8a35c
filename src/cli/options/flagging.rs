//! Flags of RFI.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use corrust::{
    Encoding, Error, Result,
    correlate::Shape,
    device::Gpu,
    format::npy::{Dtype, Writer},
    kurtosis::{FALSE_ALARM, FlagCounts, Judge, Stage, Verdict},
    run::{Blocks, Flag, Reader, Source},
};

use crate::cli::options::run_files::{all, output};
use crate::cli::terminal::missing::{FLAGGED, LOST, fractions};
use crate::cli::terminal::numbers::count;
use crate::cli::terminal::say::tell;

/// Reads a probability with which noise is flagged.
fn probability(text: &str) -> std::result::Result<f64, String> {
    let found = text.parse().map_err(|_| "expected a number, 1e-9 to 0.5".to_owned())?;
    // The judge knows the limits.
    Judge::new(Encoding::Ci8, found).map(|_| found).map_err(|error| error.to_string())
}

/// Flags of samples.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Flags")]
pub struct Flagging {
    /// Flag RFI: blocks of time samples whose spectral kurtosis is not Gaussian noise's are missing from products
    ///
    /// Every input and channel is judged for itself. Samples: ci8, ci4, ci4-offset.
    #[arg(long, value_name = "sk")]
    pub flag: Option<Method>,
    /// Times of a block that is judged, 16 to 65536; the last one may be shorter [default: 256]
    #[arg(long, value_name = "M", requires = "flag", value_parser = block_times, hide_short_help = true)]
    sk_times: Option<usize>,
    /// Probability with which Gaussian noise is flagged, 1e-9 to 0.5 [default: 0.0027, that of 3 sigma]
    #[arg(long, value_name = "P", requires = "flag", value_parser = probability, hide_short_help = true)]
    false_alarm: Option<f64>,
    /// Channels whose samples are real-valued, as 0 of spectra of real voltages in a file: 0 or 0,5. Those that --channelise
    /// makes are known
    #[arg(
        long,
        value_name = "CHANNELS",
        requires = "flag",
        value_delimiter = ',',
        hide_short_help = true
    )]
    sk_real: Vec<usize>,
    /// Samples whose quantiser clamped to -8..7 or -128..127, in place of -7..7 or -127..127
    #[arg(long, requires = "flag", hide_short_help = true)]
    sk_full_range: bool,
    /// NumPy file to write the sums of blocks to, int64 [block][channel][input][3]: valid samples, sum of |x|^2, sum of
    /// |x|^4
    #[arg(long, value_name = "SK.npy", value_parser = output(), requires = "flag", hide_short_help = true)]
    kurtosis: Option<PathBuf>,
    /// NumPy file to write what is flagged to, uint8 [block][channel][input]: 1 is flagged
    #[arg(long, value_name = "F.npy", value_parser = output(), requires = "flag", hide_short_help = true)]
    flags: Option<PathBuf>,
}

/// Times of a block that is judged, where the command does not say it, and all that there may be.
const BLOCK_TIMES: usize = 256;
const BLOCKS: RangeInclusive<usize> = 16..=1 << 16;

/// Reads the times of a block that is judged.
pub fn block_times(text: &str) -> std::result::Result<usize, String> {
    let times = text.parse().ok().filter(|times| BLOCKS.contains(times));
    times.ok_or_else(|| {
        format!("{text} times of a block: expected {} to {}", BLOCKS.start(), BLOCKS.end())
    })
}

/// Method by which samples are flagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// Spectral kurtosis.
    Sk,
}

impl Flagging {
    /// Files that are written.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.kurtosis.iter().chain(&self.flags)
    }

    /// Times of a block that is judged, if any is.
    pub fn block_times(&self) -> Option<usize> {
        self.flag.map(|_| self.sk_times.unwrap_or(BLOCK_TIMES))
    }

    /// Judge of samples of a shape, given the `circularity` of the channels' noise, as of
    /// [`Head::circularity`](corrust::run::Head).
    pub fn judge(&self, shape: &Shape, circularity: &[f64]) -> Result<Judge> {
        let judge = Judge::new(shape.encoding, self.false_alarm.unwrap_or(FALSE_ALARM))?;
        let judge = if self.sk_full_range { judge.full_range() } else { judge };
        let mut circularity = circularity.to_vec();
        for &channel in &self.sk_real {
            if channel >= shape.channels {
                return Err(Error::invalid(format!(
                    "--sk-real {channel}: expected channels from 0 to {}",
                    shape.channels - 1
                )));
            }
            circularity.resize(circularity.len().max(channel + 1), 0.0);
            circularity[channel] = 1.0;
        }
        judge.circularity(&circularity)
    }

    /// Blocks as a source; flagged samples are missing, if flagging is on.
    pub fn of(
        &self,
        blocks: impl Blocks + 'static,
        gpus: &[Arc<dyn Gpu>],
    ) -> Result<(Box<dyn Source>, Option<Judged>)> {
        let at_once = blocks.block_times();
        self.over(Reader::of(blocks).locked_for(gpus.first()), gpus, at_once)
    }

    /// A source whose flagged samples are missing, if flagging is on, about `at_once` times judged together: in the memory of the
    /// only GPU, where the samples are then; else in host memory, by the first GPU or the CPU.
    pub fn over(
        &self,
        source: impl Source + 'static,
        gpus: &[Arc<dyn Gpu>],
        at_once: usize,
    ) -> Result<(Box<dyn Source>, Option<Judged>)> {
        let Some(block_times) = self.block_times() else { return Ok((Box::new(source), None)) };
        let shape = source.head().shape;
        let judge = self.judge(&shape, &source.head().circularity)?;
        let stage = Stage::new(gpus, shape, judge, block_times, at_once)?;
        let stage = if self.kurtosis.is_some() { stage.with_sums() } else { stage };
        let judged = self.tables(&shape)?;
        let tell = judged.tell();
        Ok((Box::new(Flag::over(source, stage, tell)), Some(judged)))
    }

    /// About `at_once` times: whole blocks that are judged, if any are.
    pub fn whole(&self, at_once: usize) -> usize {
        at_once.max(1).next_multiple_of(self.block_times().unwrap_or(1))
    }

    /// Files of sums and flags.
    fn tables(&self, shape: &Shape) -> Result<Judged> {
        Ok(Judged { tables: Arc::new(Mutex::new(Tables::create(self, shape)?)) })
    }
}

/// Files of the sums and flags of judged samples.
pub struct Judged {
    tables: Arc<Mutex<Tables>>,
}

impl Judged {
    /// Returns a function that adds to the files.
    fn tell(&self) -> impl FnMut(&Verdict<'_>) -> Result<()> + Send + use<> {
        let tables = self.tables.clone();
        move |verdict: &Verdict<'_>| {
            tables.lock().unwrap_or_else(PoisonError::into_inner).append(verdict)
        }
    }

    /// Numbers of samples that were judged, lost before, and flagged.
    pub fn samples(&self) -> FlagCounts {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).judged
    }

    /// Completes the files, and says how much is flagged and missing.
    pub fn report(self) -> Result<()> {
        let samples = self.samples();
        self.finish()?;
        tell(missing_samples(&samples));
        Ok(())
    }

    /// Completes the files, and says how many blocks of an input's channel are flagged.
    pub fn finish(self) -> Result<()> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let finish = |file: Option<Writer>| file.map_or(Ok(()), Writer::finish);
        all([finish(tables.kurtosis.take()), finish(tables.flags.take())])?;
        tell(flagged_blocks(&tables.judged));
        Ok(())
    }
}

/// How many blocks are flagged, in words.
pub fn flagged_blocks(judged: &FlagCounts) -> String {
    let FlagCounts { blocks, flagged_blocks, .. } = *judged;
    format!("flagged {flagged_blocks} of {} of an input's channel", count(blocks, "block"))
}

/// Which fractions of the samples are missing, in words.
pub fn missing_samples(judged: &FlagCounts) -> String {
    let [all, lost, flagged] = [judged.samples, judged.lost, judged.flagged].map(|n| n as f64);
    fractions(all, &[(LOST, lost), (FLAGGED, flagged)])
}

/// Files of sums and of flags.
struct Tables {
    kurtosis: Option<Writer>,
    flags: Option<Writer>,
    judged: FlagCounts,
}

impl Tables {
    fn create(options: &Flagging, shape: &Shape) -> Result<Self> {
        let Shape { inputs, channels, .. } = *shape;
        let create = |path: &Option<PathBuf>, dtype, entry: &[usize]| {
            let path: Option<&Path> = path.as_deref();
            path.map(|path| Writer::appending(path, dtype, entry)).transpose()
        };
        Ok(Self {
            kurtosis: create(&options.kurtosis, Dtype::Int64, &[channels, inputs, 3])?,
            flags: create(&options.flags, Dtype::Uint8, &[channels, inputs])?,
            judged: FlagCounts::default(),
        })
    }

    fn append(&mut self, verdict: &Verdict<'_>) -> Result<()> {
        let [blocks, channels, inputs] = verdict.shape;
        self.judged += verdict.numbers;
        if let (Some(file), Some(sums)) = (&mut self.kurtosis, verdict.sums) {
            for value in sums.values.as_slice().unwrap_or_default().chunks(1 << 16) {
                let bytes: Vec<u8> = value.iter().flat_map(|value| value.to_le_bytes()).collect();
                file.append(&bytes)?;
            }
        }
        if let Some(file) = &mut self.flags {
            let mut flags = vec![0; blocks * channels * inputs];
            for missing in &verdict.flagged {
                let block = missing.times.start / verdict.block_times;
                for channel in missing.channels.clone() {
                    let row = (block * channels + channel) * inputs;
                    flags[row + missing.inputs.start..row + missing.inputs.end].fill(1);
                }
            }
            file.append(&flags)?;
        }
        Ok(())
    }
}
