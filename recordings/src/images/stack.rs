//! Files of frames.

use std::{
    fs::File,
    io::BufReader,
    ops::Range,
    path::{Path, PathBuf},
};

use corrust_host::{Error, Result, device};
#[cfg(feature = "hdf5")]
use rust_hdf5::{DatatypeMessage, H5Dataset, H5File};
use tiff::{
    ColorType,
    decoder::{Decoder, DecodingResult, Limits},
    tags::{PhotometricInterpretation, Tag},
};

use super::MOST_PIXELS;
#[cfg(feature = "hdf5")]
use crate::formats::hdf5::{self, guarded, stored};
use crate::formats::{
    input::begins,
    npy::{
        header::{Dtype, MAGIC},
        reader::Reader,
    },
};

/// First bytes of every HDF5 file without a user block.
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
/// First bytes of TIFF files: small and big, of either order of bytes.
const TIFF: [&[u8]; 4] = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];
/// Frames of a TIFF file, at most.
const MOST_FRAMES: usize = 1 << 24;
/// Count of 32 bits of a pixel that a detector does not have.
const ABSENT: u32 = u32::MAX;
/// Datasets that an error names, at most.
#[cfg(feature = "hdf5")]
const SHOWN: usize = 4;

/// A file of frames, `[frame][row][column]`, of counts in 8, 16 or 32 bits without sign: NumPy, HDF5, or TIFF with an image for
/// each frame. Counts of 32 bits are at most 65535, but for 2^32 - 1, by which detectors (Eiger) mark pixels that they do
/// not have: it is read as 0.
pub struct Stack {
    path: PathBuf,
    source: FrameFile,
    frames: usize,
    height: usize,
    width: usize,
}

enum FrameFile {
    Npy(Reader, Width),
    #[cfg(feature = "hdf5")]
    Hdf5(Box<H5Dataset>, Width),
    Tiff(Box<Images>),
}

/// Bits of a count, without sign.
#[derive(Clone, Copy, Debug)]
enum Width {
    Eight,
    Sixteen,
    ThirtyTwo,
}

/// Names of the types that are read.
const TYPES: &str = "uint8, uint16 or uint32";

impl Stack {
    /// Opens a file, which its first bytes tell; `dataset` is the name of the frames in an HDF5 file.
    ///
    /// # Errors
    /// [`Error::File`] for a file of another kind, or damaged; [`Error::Setting`] naming the dataset where the file has no such
    /// one; [`Error::Io`] when it cannot be read.
    pub fn open(path: &Path, dataset: &str) -> Result<Self> {
        let mut kinds = TIFF.iter().map(|magic| begins(path, magic));
        if kinds.any(|tiff| matches!(tiff, Ok(true))) {
            let (images, frames) = Images::open(path)?;
            let (height, width) = images.size;
            return Self::of(path, FrameFile::Tiff(Box::new(images)), &[frames, height, width]);
        }
        if begins(path, HDF5)? {
            #[cfg(not(feature = "hdf5"))]
            {
                let _ = dataset;
                let reason = "is HDF5: expected a build of corrust with the feature hdf5";
                return Err(Error::file(path, reason));
            }
            #[cfg(feature = "hdf5")]
            {
                let file = guarded(path, "read", || H5File::open(path))?;
                let Some(data) = hdf5::dataset(path, &file, dataset)? else {
                    let names = file.dataset_names();
                    let shown = names.iter().take(SHOWN).map(|name| format!("{name:?}"));
                    let reason = format!(
                        "no dataset {dataset:?}: expected the name of one{}{}",
                        if names.is_empty() { "" } else { ", as " },
                        shown.collect::<Vec<_>>().join(", ")
                    );
                    return Err(Error::setting("dataset", Some(path), reason));
                };
                let kind = guarded(path, "read the dataset of frames", || data.datatype())?;
                let width = match kind {
                    DatatypeMessage::FixedPoint { size: 1, signed: false, .. } => Width::Eight,
                    DatatypeMessage::FixedPoint { size: 2, signed: false, .. } => Width::Sixteen,
                    DatatypeMessage::FixedPoint { size: 4, signed: false, .. } => Width::ThirtyTwo,
                    other => {
                        let reason = format!("dataset {dataset:?} of {other:?}: expected {TYPES}");
                        return Err(Error::file(path, reason));
                    }
                };
                let axes = stored(path, dataset, &data)?;
                return Self::of(path, FrameFile::Hdf5(Box::new(data), width), &axes);
            }
        }
        if path.is_file() && !begins(path, MAGIC)? {
            return Err(Error::file(path, "is no stack of images: expected TIFF, HDF5 or NumPy"));
        }
        let reader = Reader::open(path)?;
        let width = match reader.dtype() {
            Some(Dtype::Uint8) => Width::Eight,
            Some(Dtype::Uint16) => Width::Sixteen,
            Some(Dtype::Uint32) => Width::ThirtyTwo,
            _ => {
                let kind = reader.type_name();
                let reason = format!("elements of type {kind}: expected {TYPES}");
                return Err(Error::file(path, reason));
            }
        };
        let axes = reader.shape().to_vec();
        Self::of(path, FrameFile::Npy(reader, width), &axes)
    }

    fn of(path: &Path, source: FrameFile, axes: &[usize]) -> Result<Self> {
        let path = path.to_owned();
        match *axes {
            [frames, height, width]
                if frames > 0
                    && height
                        .checked_mul(width)
                        .is_some_and(|n| (1..=MOST_PIXELS).contains(&n)) =>
            {
                Ok(Self { path, source, frames, height, width })
            }
            _ => {
                let reason = format!(
                    "frames of shape {axes:?}: expected [frame][row][column], none of them empty, and at most \
                     {MOST_PIXELS} pixels a frame"
                );
                Err(Error::file(path, reason))
            }
        }
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Rows of a frame.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of a frame.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Kind of the file.
    pub fn format(&self) -> &'static str {
        match self.source {
            FrameFile::Npy(..) => "NumPy",
            #[cfg(feature = "hdf5")]
            FrameFile::Hdf5(..) => "HDF5",
            FrameFile::Tiff(_) => "TIFF",
        }
    }

    /// Reads rows of a frame, `[row][column]`, into `pixels`.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is damaged; [`Error::Io`] when it cannot be read.
    ///
    /// # Panics
    /// When there is no such frame or row, or `pixels` are more or fewer.
    pub fn read(&mut self, frame: usize, rows: Range<usize>, pixels: &mut [u16]) -> Result<()> {
        assert!(frame < self.frames && rows.end <= self.height, "a part of the stack");
        assert_eq!(pixels.len(), rows.len() * self.width, "a place for every pixel");
        let first = (frame * self.height + rows.start) as u64 * self.width as u64;
        match &mut self.source {
            FrameFile::Npy(reader, Width::Sixteen) => {
                reader.read_at(first, bytemuck::cast_slice_mut(pixels))?;
                pixels.iter_mut().for_each(|count| *count = u16::from_le(*count));
            }
            FrameFile::Npy(reader, Width::ThirtyTwo) => {
                let mut wide: Vec<u32> = device::zeros(pixels.len())?;
                reader.read_at(first, bytemuck::cast_slice_mut(&mut wide))?;
                wide.iter_mut().for_each(|count| *count = u32::from_le(*count));
                narrow(&self.path, frame, &wide, pixels)?;
            }
            FrameFile::Npy(reader, Width::Eight) => {
                let mut narrow = device::zeros(pixels.len())?;
                reader.read_at(first, &mut narrow)?;
                widen(&narrow, pixels);
            }
            #[cfg(feature = "hdf5")]
            FrameFile::Hdf5(data, width) => {
                let (starts, sizes) = ([frame, rows.start, 0], [1, rows.len(), self.width]);
                let path = &self.path;
                if matches!(width, Width::Sixteen) {
                    return guarded(path, "read", || data.read_slice_into(pixels, &starts, &sizes));
                }
                if matches!(width, Width::ThirtyTwo) {
                    let mut wide: Vec<u32> = device::zeros(pixels.len())?;
                    guarded(path, "read", || data.read_slice_into(&mut wide, &starts, &sizes))?;
                    return narrow(path, frame, &wide, pixels);
                }
                let mut narrow: Vec<u8> = device::zeros(pixels.len())?;
                guarded(path, "read", || data.read_slice_into(&mut narrow, &starts, &sizes))?;
                widen(&narrow, pixels);
            }
            FrameFile::Tiff(images) => {
                let (width, path) = (self.width, &self.path);
                let whole = images.frame(path, frame)?;
                pixels.copy_from_slice(&whole[rows.start * width..rows.end * width]);
            }
        }
        Ok(())
    }

    /// Reads a whole frame, `[row][column]`, into `pixels`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub fn read_frame(&mut self, frame: usize, pixels: &mut [u16]) -> Result<()> {
        self.read(frame, 0..self.height, pixels)
    }
}

/// Counts of a frame that have 32 bits, in 16.
fn narrow(path: &Path, frame: usize, wide: &[u32], pixels: &mut [u16]) -> Result<()> {
    for (pixel, &count) in pixels.iter_mut().zip(wide) {
        *pixel = match u16::try_from(count) {
            Ok(count) => count,
            Err(_) if count == ABSENT => 0,
            Err(_) => {
                let reason = format!(
                    "count {count} in frame {frame}: expected at most {}, or {ABSENT} for a pixel that is not there",
                    u16::MAX
                );
                return Err(Error::file(path, reason));
            }
        };
    }
    Ok(())
}

fn widen(narrow: &[u8], pixels: &mut [u16]) {
    pixels.iter_mut().zip(narrow).for_each(|(pixel, &count)| *pixel = count.into());
}

/// Images of a TIFF file, the last of which that was read is kept.
struct Images {
    decoder: Decoder<BufReader<File>>,
    size: (usize, usize),
    kept: Option<(usize, Vec<u16>)>,
}

/// Refuses images of several colours, and images that have no directory of their own, by the description that ImageJ and
/// OME-TIFF write to the first image. A stack of nothing but more "channels" than ImageJ has colours is one of frames, as
/// tifffile writes it where it is told no axes.
fn check_description(path: &Path, about: &str, images: usize) -> Result<()> {
    /// Colours that ImageJ shows together, at most.
    const MOST_COLOURS: usize = 7;
    let number = |name: &str, end: &[char]| {
        let (_, value) = about.split_once(name)?;
        value.split(end).next()?.trim().parse::<usize>().ok()
    };
    let line = &['\n', '\r', '\0'];
    let is_imagej = about.starts_with("ImageJ=");
    let all = number("\nimages=", line).filter(|_| is_imagej).unwrap_or(images);
    let (colours, are_frames) = match is_imagej {
        true => {
            let channels = number("\nchannels=", line);
            (channels, channels.is_some_and(|channels| channels == all && channels > MOST_COLOURS))
        }
        false => (number(" SizeC=\"", &['"']), false),
    };
    if let Some(colours) = colours.filter(|&colours| colours > 1 && !are_frames) {
        let reason = format!("images of {colours} colours: expected one, a file for each colour");
        return Err(Error::file(path, reason));
    }
    if all > images {
        let reason = format!(
            "{images} of {all} images have a directory: expected all, as tifffile or ImageJ below 4 GB write them"
        );
        return Err(Error::file(path, reason));
    }
    Ok(())
}

impl Images {
    /// Opens a file, and counts its images.
    fn open(path: &Path) -> Result<(Self, usize)> {
        let fault = |error: tiff::TiffError| Error::file(path, format!("TIFF: {error}"));
        let file = File::open(path).map_err(Error::io(path, "open"))?;
        let mut decoder = Decoder::new(BufReader::new(file)).map_err(fault)?;
        let (width, height) = decoder.dimensions().map_err(fault)?;
        let size = (height as usize, width as usize);
        if size.0.saturating_mul(size.1) > MOST_PIXELS {
            let reason =
                format!("images of {height} x {width}: expected at most {MOST_PIXELS} pixels");
            return Err(Error::file(path, reason));
        }
        let mut limits = Limits::default();
        limits.decoding_buffer_size = 2 * MOST_PIXELS;
        limits.intermediate_buffer_size = 2 * MOST_PIXELS;
        let mut decoder = decoder.with_limits(limits);
        // Not all programs write text that is text.
        let about = decoder.get_tag_ascii_string(Tag::ImageDescription).unwrap_or_default();
        let mut frames = 1;
        while decoder.more_images() {
            decoder.next_image().map_err(fault)?;
            frames += 1;
            if frames > MOST_FRAMES {
                let reason = format!("more than {MOST_FRAMES} images: expected fewer");
                return Err(Error::file(path, reason));
            }
        }
        check_description(path, &about, frames)?;
        Ok((Self { decoder, size, kept: None }, frames))
    }

    /// An image as it is kept after this.
    fn frame(&mut self, path: &Path, frame: usize) -> Result<&[u16]> {
        if self.kept.as_ref().is_none_or(|(kept, _)| *kept != frame) {
            self.kept = Some((frame, self.decode(path, frame)?));
        }
        Ok(&self.kept.as_ref().expect("it was decoded").1)
    }

    fn decode(&mut self, path: &Path, frame: usize) -> Result<Vec<u16>> {
        let fault = |error: tiff::TiffError| Error::file(path, format!("image {frame}: {error}"));
        self.decoder.seek_to_image(frame).map_err(fault)?;
        let (width, height) = self.decoder.dimensions().map_err(fault)?;
        let kind = self.decoder.colortype().map_err(fault)?;
        if (height as usize, width as usize) != self.size {
            let (rows, columns) = self.size;
            let reason = format!(
                "image {frame} of {height} x {width}: expected {rows} x {columns}, as the first has"
            );
            return Err(Error::file(path, reason));
        }
        let unknown = || {
            let reason = format!(
                "image {frame} of {kind:?}: expected grey in 8, 16 or 32 bits without sign"
            );
            Error::file(path, reason)
        };
        if !matches!(kind, ColorType::Gray(8 | 16 | 32)) {
            return Err(unknown());
        }
        // Where 0 is white, the decoder turns counts into grey levels; counts are wanted.
        let white = PhotometricInterpretation::WhiteIsZero.to_u16().into();
        let photometric = self.decoder.find_tag_unsigned(Tag::PhotometricInterpretation);
        let inverted = photometric.map_err(fault)? == Some::<u32>(white);
        let pixels = match self.decoder.read_image().map_err(fault)? {
            DecodingResult::U8(mut narrow) => {
                if inverted {
                    narrow.iter_mut().for_each(|count| *count = !*count);
                }
                narrow.into_iter().map(u16::from).collect()
            }
            DecodingResult::U16(mut wide) => {
                if inverted {
                    wide.iter_mut().for_each(|count| *count = !*count);
                }
                wide
            }
            DecodingResult::U32(mut wide) => {
                if inverted {
                    wide.iter_mut().for_each(|count| *count = !*count);
                }
                let mut pixels = vec![0; wide.len()];
                narrow(path, frame, &wide, &mut pixels)?;
                pixels
            }
            _ => return Err(unknown()),
        };
        match pixels.len() == self.size.0 * self.size.1 {
            true => Ok(pixels),
            false => Err(unknown()),
        }
    }
}
