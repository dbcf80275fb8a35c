//! The border to the crate that reads HDF5: limits of a file's numbers, and panics as errors.
//!
//! The crate bounds what it reads of a file by the file's length, but for a chunk that filters made smaller: it
//! takes memory for as many bytes as the chunk's axes say, and ends the program where there is none. Nor does it
//! bound a dataset whose chunks were never written, which is read as zeros however large it is. [`stored`] refuses
//! both before anything is read.

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Once,
};

use rust_hdf5::{H5Dataset, H5File, H5Type, Hdf5Error, StorageLayout};

use corrust_host::{Error, Result, device};

/// Most bytes that filters make of one: deflate writes 258 in two bits, LZ4 255 in a byte, Zstd a block of 128 KiB in four.
const EXPANSION: u64 = 1032;
const OF_ZSTD: u64 = 1 << 15;

/// Filters by their numbers in files, whose results are no longer than the chunk: deflate, shuffle, fletcher32, nbit,
/// scaleoffset; Blosc, LZ4, bitshuffle (with LZ4 or alone), Zstd. That of szip is as long as a number in the chunk says.
const FILTERS: [u16; 9] = [1, 2, 3, 5, 6, BLOSC, 32004, BITSHUFFLE, ZSTD];

/// Filter of which the fifth number says what it is followed by.
const BITSHUFFLE: u16 = 32008;
const OVER_ZSTD: u32 = 3;

/// Filters that may be Zstd's.
const BLOSC: u16 = 32001;
const ZSTD: u16 = 32015;

thread_local! {
    /// Whether a panic of this thread is about to become a sentence.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// A closure for `map_err` that makes an error about a file of a fault in it.
pub(crate) fn fault(path: &Path, action: &'static str) -> impl Fn(Hdf5Error) -> Error {
    let path = path.to_owned();
    move |error| match error {
        Hdf5Error::Io(error) => Error::io(&path, action)(error),
        error => Error::file(&path, format!("cannot {action}: {error}")),
    }
}

/// Calls the crate; a panic of it is a fault of the file, and nothing of it is printed.
///
/// # Errors
/// [`Error::Io`] or [`Error::File`], "cannot `action`".
pub(crate) fn guarded<T>(
    path: &Path,
    action: &'static str,
    call: impl FnOnce() -> Result<T, Hdf5Error>,
) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CAUGHT.try_with(Cell::get).unwrap_or(false) {
                before(panic);
            }
        }));
    });
    let before = CAUGHT.replace(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(call));
    CAUGHT.set(before);
    match ended {
        Ok(result) => result.map_err(fault(path, action)),
        Err(panic) => {
            let reason = format!("cannot {action}: damaged HDF5 ({})", said(&*panic));
            Err(Error::file(path, reason))
        }
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

/// The dataset of a path in the file; [`None`] where there is none.
///
/// # Errors
/// As for [`guarded`], when there is one that cannot be opened.
pub(crate) fn dataset(path: &Path, file: &H5File, name: &str) -> Result<Option<H5Dataset>> {
    let same = |known: &String| known.trim_matches('/') == name.trim_matches('/');
    guarded(path, "read", || match file.dataset(name) {
        Err(_) if !file.dataset_names().iter().any(same) => Ok(None),
        found => found.map(Some),
    })
}

/// The shape of the dataset `name`, whose values are in the file: no more of them, and no more in a chunk, than
/// its bytes can hold.
///
/// # Errors
/// [`Error::File`] for more values, for values in other files, and for filters whose results have no bound;
/// [`Error::Io`].
pub(crate) fn stored(path: &Path, name: &str, data: &H5Dataset) -> Result<Vec<usize>> {
    let refuse = |reason: String| Err(Error::file(path, format!("dataset \"{name}\" {reason}")));
    let held = std::fs::metadata(path).map_err(Error::io(path, "read"))?.len();
    let (layout, filters, elsewhere) = guarded(path, "read", || {
        Ok((data.storage_layout()?, data.filters()?, !data.external_files()?.is_empty()))
    })?;
    if elsewhere || layout == StorageLayout::Virtual {
        return refuse("with values in other files: expected them in this one".into());
    }
    if let Some(filter) = filters.iter().find(|filter| !FILTERS.contains(&filter.id)) {
        return refuse(format!(
            "with filter {}: expected deflate, shuffle, fletcher32, nbit, scaleoffset, bitshuffle, LZ4, Zstd or Blosc alone",
            filter.id
        ));
    }
    if filters
        .iter()
        .any(|filter| filter.id == BITSHUFFLE && filter.cd_values.get(4) == Some(&OVER_ZSTD))
    {
        return refuse(
            "in bitshuffle with Zstd: expected bitshuffle with LZ4 or alone, or Zstd; \"h5repack -f GZIP=1\" with the plugins of \
             hdf5plugin writes such a file anew"
                .into(),
        );
    }
    let shape = data.shape();
    let bytes = |axes: &[usize]| {
        let each = data.element_size() as u64;
        axes.iter().fold(each, |all, &axis| all.saturating_mul(axis as u64))
    };
    let is_zstd = filters.iter().any(|filter| matches!(filter.id, BLOSC | ZSTD));
    let expansion = if is_zstd { OF_ZSTD } else { EXPANSION };
    let most = if filters.is_empty() { held } else { held.saturating_mul(expansion) };
    if bytes(&shape) > most {
        return refuse(format!(
            "of shape {shape:?}, {} bytes: expected at most {most}, which {held} bytes of a file can hold",
            bytes(&shape)
        ));
    }
    if let Some(axes) = data.chunk_dims().filter(|_| !filters.is_empty()) {
        let chunk = bytes(&axes);
        // HDF5's own limit, too.
        if chunk > most.min(u32::MAX.into()) {
            return refuse(format!(
                "in chunks of {axes:?}, {chunk} bytes: expected at most {most}, which {held} bytes of a file \
                 can hold"
            ));
        }
        device::room::<u8>(chunk as usize)?;
    }
    Ok(shape)
}

/// All values of a dataset.
///
/// # Errors
/// As for [`stored`]; [`Error::OutOfMemory`]; [`Error::File`] when they are of another type, or cannot be read.
pub(crate) fn column<T: H5Type + Copy + Default>(
    path: &Path,
    name: &str,
    data: &H5Dataset,
) -> Result<Vec<T>> {
    let count = stored(path, name, data)?.into_iter().product();
    let mut values = device::zeros(count)?;
    guarded(path, "read", || data.read_raw_into(&mut values))?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_crate_is_a_fault_of_the_file() {
        let ended = guarded(Path::new("x.h5"), "read", || -> Result<(), Hdf5Error> {
            panic!("index {} out of range", 7)
        });
        let said = ended.unwrap_err().to_string();
        assert_eq!(said, "x.h5: cannot read: damaged HDF5 (index 7 out of range)");
        assert!(!CAUGHT.get(), "later panics are printed");
    }

    #[test]
    fn a_dataset_that_is_not_there_is_told_from_one_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.h5");
        let file = H5File::create(&path).unwrap();
        let group = file.create_group("Header").unwrap();
        let data = group.new_dataset::<i64>().shape([2]).create("numbers").unwrap();
        data.write_raw(&[3_i64, 4]).unwrap();
        drop((data, group));
        file.close().unwrap();
        let file = H5File::open(&path).unwrap();
        for name in ["Header/numbers", "/Header/numbers"] {
            let found = dataset(&path, &file, name).unwrap().expect("a dataset");
            assert_eq!(column::<i64>(&path, name, &found).unwrap(), [3, 4]);
        }
        assert!(dataset(&path, &file, "Header/names").unwrap().is_none());
        assert!(dataset(&path, &file, "numbers").unwrap().is_none());
    }
}
