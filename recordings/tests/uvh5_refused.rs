//! UVH5 files that are not ours to read are refused by a sentence that says why; others are read.

use std::path::Path;

use corrust_recordings::formats::uvh5::Reader;
use rust_hdf5::{H5File, H5Type};

fn list<T: H5Type>(file: &H5File, group: &str, name: &str, shape: &[usize], values: &[T]) {
    let group = file.root_group().group(group).unwrap();
    group.new_dataset::<T>().shape(shape).create(name).unwrap().write_raw(values).unwrap();
}

/// Rows of two baselines and two times, one frequency, one polarisation; visibilities are numbers of any type.
fn write<T: H5Type>(path: &Path, first: &[i64], times: &[f64], shape: &[usize], values: &[T]) {
    let file = H5File::create(path).unwrap();
    let root = file.root_group();
    root.create_group("Header").unwrap();
    root.create_group("Data").unwrap();
    list(&file, "Header", "freq_array", &[1], &[1e8]);
    list(&file, "Header", "polarization_array", &[1], &[-5_i64]);
    list(&file, "Header", "time_array", &[times.len()], times);
    list(&file, "Header", "ant_1_array", &[first.len()], first);
    list(&file, "Header", "ant_2_array", &[first.len()], &vec![1_i64; first.len()]);
    list(&file, "Data", "visdata", shape, values);
    file.close().unwrap();
}

#[test]
fn what_is_not_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.uvh5");
    let said = || {
        let said = Reader::open(&path).err().expect("it is refused").to_string();
        assert!(said.contains("x.uvh5") && said.lines().count() == 1, "{said}");
        said
    };
    assert!(said().contains("read"));
    std::fs::write(&path, "no HDF5").unwrap();
    assert!(said().contains("x.uvh5"));

    let (first, times) = ([0, 1, 0, 1], [1.0, 1.0, 2.0, 2.0]);
    write(&path, &first, &times, &[3, 1, 1], &[0.0_f64; 3]);
    let expected = "visibilities of shape [3, 1, 1]: expected [4, 1, 1]";
    assert!(said().contains(expected), "{}", said());
    write(&path, &first[1..], &times, &[4, 1, 1], &[0.0_f64; 4]);
    assert!(said().contains("visibilities of shape [4, 1, 1]"), "{}", said());
    write(&path, &first, &times, &[4, 1, 1], &[0_u16; 4]);
    assert!(said().contains("visibilities of 2 bytes: expected 16 or 8"), "{}", said());
    for (first, times) in [([0, 1, 1, 0], times), (first, [1.0, 1.0, 1.0, 2.0])] {
        write(&path, &first, &times, &[4, 1, 1], &[0.0_f64; 4]);
        assert!(said().contains("rows in another order"), "{}", said());
    }

    write(&path, &first, &times, &[4, 1, 1], &[0.0_f64; 4]);
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.dumps(), reader.times()), (2, &[1.0, 2.0][..]));
    assert_eq!((reader.frequencies(), reader.polarisations()), (&[1e8][..], &[-5][..]));
    assert_eq!(reader.pairs(), [[0, 1], [1, 1]]);
    let said = reader.read(2).unwrap_err().to_string();
    assert!(said.contains("dump 2: expected one below 2"), "{said}");
}
