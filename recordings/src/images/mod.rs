//! Stacks of images: number and brightness, spatial correlation (RICS), two-time correlation (XPCS).
//!
//! A [`Stack`] is a file of frames `[frame][row][column]` of counts. Each analysis takes frames one by one, as slices, and holds
//! exact sums until it is asked for its result:
//!
//! - [`Brightness`]: mean and variance of every pixel, and the number and the brightness of molecules that follow
//!   (Digman, Dalal, Horwitz, Gratton, Biophys. J. 94, 2320, 2008);
//! - [`Spatial`]: correlation of every frame with itself, shifted (Digman et al., Biophys. J. 89, 1317, 2005), to which
//!   [`Rics`] fits diffusion under a scanned beam;
//! - [`PairCorrelation`]: correlation in time between pixels of a distance (Digman and Gratton, Biophys. J. 97, 665, 2009), on the
//!   autocorrelator;
//! - [`TwoTime`]: correlation of every frame with every other over groups of pixels, on the correlator's kernels.
//!
//! ```
//! use corrust_recordings::images::Brightness;
//!
//! let mut maps = Brightness::new(1, 2)?;
//! for frame in [[3, 0], [1, 4], [5, 2], [3, 2]] {
//!     maps.add(&frame)?;
//! }
//! let [mean, variance] = maps.moments(0, 1);
//! assert_eq!((mean, variance), (2.0, 8.0 / 3.0));
//! # Ok::<(), corrust_host::Error>(())
//! ```

pub(crate) mod brightness;
pub(crate) mod pair;
pub(crate) mod rics;
pub(crate) mod spatial;
pub(crate) mod stack;
pub(crate) mod two_time;

use corrust_host::{Error, Result};

pub use brightness::{Brightness, Detector};
pub use pair::PairCorrelation;
pub use rics::{Fitted, Rics};
pub use spatial::{Blocks, Map, Spatial};
pub use stack::Stack;
pub use two_time::{Sums, TwoTime};

/// Pixels of a frame, at most.
pub const MOST_PIXELS: usize = 1 << 26;

/// Checks the size of a frame, and returns its pixels.
fn pixels(height: usize, width: usize) -> Result<usize> {
    height.checked_mul(width).filter(|pixels| (1..=MOST_PIXELS).contains(pixels)).ok_or_else(|| {
        Error::invalid(format!(
            "frames of {height} x {width} pixels: expected 1 to {MOST_PIXELS} pixels"
        ))
    })
}

/// Checks that a frame has as many pixels as are expected.
fn check(frame: &[u16], pixels: usize) -> Result<()> {
    if frame.len() == pixels {
        return Ok(());
    }
    Err(Error::invalid(format!("a frame of {} pixels: expected {pixels}", frame.len())))
}
