//! Folders and recordings of tests.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

/// Names of the files in a folder, sorted.
pub fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes files in a fresh folder, `scan.0000.bin` and so on.
pub fn write(files: &[Vec<u8>]) -> (tempfile::TempDir, Vec<PathBuf>) {
    write_as("bin", files)
}

/// Writes files in a fresh folder, their names with this ending.
pub fn write_as(ending: &str, files: &[Vec<u8>]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = files.iter().enumerate().map(|(index, bytes)| {
        let path = folder.path().join(format!("scan.{index:04}.{ending}"));
        fs::write(&path, bytes).unwrap();
        path
    });
    let paths = paths.collect();
    (folder, paths)
}

/// Header of a block of GUPPI RAW: a card for each name and value, and `END`.
pub fn guppi_header<V: Display>(cards: &[(&str, V)]) -> Vec<u8> {
    let cards = cards.iter().map(|(name, value)| format!("{name:8}= {value:>20}"));
    let cards = cards.chain(["END".to_owned()]).map(|card| format!("{card:80}"));
    cards.collect::<String>().into_bytes()
}
