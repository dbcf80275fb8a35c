//! Launches as options of a command say them: what `ptx-sim` and the estimates of `ptx-model` share.

mod npy;
mod parameters;

use std::path::Path;

use crate::error::Error;
use crate::module::Module;
use crate::tensor::sum::Tensor;

pub use parameters::{Argument, Parameters, Save};

/// Bytes of a file.
///
/// # Errors
/// One sentence with the file's name.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads one to three numbers with commas between; a number that is left out is 1.
///
/// # Errors
/// One sentence about the text.
pub fn extents(text: &str) -> Result<[u32; 3], String> {
    let mut extents = [1; 3];
    let mut places = extents.iter_mut();
    for part in text.split(',') {
        let place = places.next().ok_or("expected at most three numbers")?;
        *place = part
            .trim()
            .parse()
            .map_err(|_| format!("`{part}` is not a number of blocks or threads"))?;
    }
    Ok(extents)
}

/// Reads the name of a model of matrix units.
///
/// # Errors
/// One sentence that lists the valid names.
pub fn tensor(text: &str) -> Result<Tensor, String> {
    let found = Tensor::NAMES.iter().find(|(name, _)| *name == text);
    found.map(|&(_, model)| model).ok_or_else(|| {
        let names = Tensor::NAMES.map(|(name, _)| name);
        format!("`{text}` is no model of matrix units, expected {}", names.join(", "))
    })
}

/// A file of PTX with the entry that was named, or the only one that it has.
///
/// # Errors
/// One sentence with the file's name, and the line where there is one.
pub fn module(path: &Path, entry: Option<&str>) -> Result<(String, Module, String), String> {
    let file = path.display().to_string();
    let text =
        String::from_utf8(read(path)?).map_err(|_| format!("{file}: not a text in UTF-8"))?;
    let module = Module::parse(&text).map_err(|error| at(&file, &error))?;
    let entry = match entry {
        Some(entry) => entry.to_owned(),
        None => only_entry(&module).map_err(|message| format!("{file}: {message}"))?,
    };
    if let Some((_, error)) = module.refused().find(|(name, _)| *name == entry) {
        return Err(at(&file, error));
    }
    if !module.entries().any(|e| e.name == entry) {
        let names: Vec<&str> = module.entries().map(|e| e.name).collect();
        return Err(format!("{file}: no entry `{entry}`: the file has {}", names.join(", ")));
    }
    Ok((text, module, entry))
}

/// The entry of a module that has one.
fn only_entry(module: &Module) -> Result<String, String> {
    let names: Vec<&str> =
        module.entries().map(|e| e.name).chain(module.refused().map(|(name, _)| name)).collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err("the file has no entry".to_owned()),
        _ => Err(format!("--entry chooses one of {}", names.join(", "))),
    }
}

/// An error of the library with the file in front, and its line where it has one.
pub fn at(file: &str, error: &Error) -> String {
    match error {
        Error::Syntax { line, message } => format!("{file}:{line}: {message}"),
        Error::Unsupported { line, instruction, message } => {
            format!("{file}:{line}: `{instruction}`: {message}")
        }
        error => format!("{file}: {error}"),
    }
}
