//! Stacks of images: counts of HDF5 files, of every filter that is read, equal the counts that h5py wrote.

use corrust::{format::npy::Reader, images::Stack};

use crate::support::witness;

const DATASET: &str = "entry/data/data";

#[test]
fn counts_are_those_that_detectors_write() {
    let Some(python) = witness::python(&["h5py==3.16.0", "hdf5plugin==7.1.0", "numpy>=2"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let names = witness::script(&python, "stacks.py", &[folder.path().to_str().unwrap()]);
    let mut plain = Reader::open(folder.path().join("plain.npy")).unwrap();
    let bytes = plain.read_all().unwrap();
    let expected: Vec<u16> =
        bytes.as_chunks().0.iter().map(|&count| u16::from_le_bytes(count)).collect();
    let read = |name: &str| {
        let mut stack =
            Stack::open(&folder.path().join(name), DATASET).map_err(|e| e.to_string())?;
        let (frames, pixels) = (stack.frames(), stack.height() * stack.width());
        assert_eq!((frames, stack.height(), stack.width()), (5, 24, 37));
        let mut found = vec![0; frames * pixels];
        for (frame, pixels) in found.chunks_exact_mut(pixels).enumerate() {
            stack.read_frame(frame, pixels).map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(found)
    };
    assert_eq!(names.lines().count(), 18);
    for name in names.lines() {
        assert!(read(name).unwrap() == expected, "{name}");
    }
    // A pixel that the detector lacks.
    let mut without = expected.clone();
    without[(24 + 2) * 37 + 3] = 0;
    assert!(read("absent.h5").unwrap() == without);
    for name in ["large.h5", "large.npy"] {
        let text = read(name).unwrap_err();
        assert!(text.contains("count 65536 in frame 2: expected at most 65535"), "{text}");
    }
    let text = read("bitshuffle-zstd.h5").unwrap_err();
    assert!(
        text.contains("in bitshuffle with Zstd: expected") && text.contains("h5repack"),
        "{text}"
    );
    let path = folder.path().join("absent.h5");
    let text = Stack::open(&path, "data").err().unwrap().to_string();
    assert!(text.contains("no dataset \"data\": expected the name of one"), "{text}");
    assert!(text.contains(DATASET), "{text}");
}
