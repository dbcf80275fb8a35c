//! The kernels that a GPU runs: the shipped ones, or others in their place.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use corrust_gpu::{
    abi::{ENTRIES, Entry},
    ptx,
};

use crate::{
    error::{Error, Result},
    named::Named,
    text::read_text,
};

/// Names a file or folder of PTX whose kernels every device takes in place of those shipped.
pub const PTX_VARIABLE: &str = "CORRUST_PTX";

static NAMED: Named<Kernels> = Named::new(PTX_VARIABLE, Kernels::read);

/// PTX of kernels that replace the shipped ones of the same name, from another build or under development. Empty: the
/// shipped kernels.
#[derive(Clone, Debug, Default)]
pub struct Kernels(Arc<HashMap<&'static str, Module>>);

/// A kernel's module, and the file that it was read from.
#[derive(Debug)]
struct Module {
    text: String,
    file: PathBuf,
}

impl Kernels {
    /// Reads a file of PTX, or all files in `.ptx` of a folder and the folders in it. A file may hold any
    /// number of kernels.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for a file without a kernel, with a kernel that corrust does not have,
    /// or one that takes other parameters or blocks of another size than the host gives it.
    pub fn read(path: &Path) -> Result<Self> {
        let mut kernels = HashMap::new();
        let files = ptx_files(path)?;
        if files.is_empty() {
            return Err(Error::file(path, "no files in .ptx: expected a kernel's at least"));
        }
        for file in files {
            let text = read_text(&file)?;
            let parts = ptx::split(&text);
            if parts.is_empty() {
                return Err(Error::file(&file, "no kernels (.entry): expected PTX"));
            }
            let is_alone = parts.len() == 1;
            for (name, module) in parts {
                let entry = ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
                    Error::file(&file, format!("kernel {name}: expected one that corrust has"))
                })?;
                let expected = Interface::declared(entry);
                let found = Interface::of(&module);
                if found != expected {
                    return Err(Error::file(
                        &file,
                        format!("kernel {name} takes {found}: expected {expected}"),
                    ));
                }
                // The whole file where it has one kernel, so that messages count lines as the file does.
                let text = if is_alone { text.clone() } else { module };
                kernels.insert(entry.name, Module { text, file: file.clone() });
            }
        }
        Ok(Self(Arc::new(kernels)))
    }

    /// Sets the kernels that every device uses in place of the shipped ones, whatever the environment names.
    ///
    /// # Errors
    /// [`Error::Device`] when some were set, or a device opened, before.
    pub fn set(self) -> Result<()> {
        NAMED.set(self)
    }

    /// Returns the kernels that were [set](Self::set), else those that the environment names in [`PTX_VARIABLE`].
    ///
    /// # Errors
    /// [`Error::Device`] when what it names cannot be [read](Self::read).
    pub fn named() -> Result<Self> {
        Ok(NAMED.get()?.cloned().unwrap_or_default())
    }

    /// The module of a kernel.
    pub fn ptx(&self, entry: &Entry) -> &str {
        self.0.get(entry.name).map_or_else(|| ptx::of_entry(entry), |module| &module.text)
    }

    /// Whether a kernel of that name is replaced.
    pub fn replaces(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The file that holds the module of a kernel.
    #[cfg_attr(not(feature = "sim"), allow(dead_code))]
    pub(super) fn file(&self, entry: &Entry) -> &Path {
        let file = self.0.get(entry.name).map(|module| module.file.as_path());
        file.unwrap_or_else(|| Path::new(ptx::file_of(entry)))
    }
}

/// The files in `.ptx` at or below a path, in order.
fn ptx_files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let read = || fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
    let mut entries: Vec<PathBuf> = std::io::Result::map_err(read(), Error::io(path, "read"))?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            files.extend(ptx_files(&entry)?);
        } else if entry.extension().is_some_and(|extension| extension == "ptx") {
            files.push(entry);
        }
    }
    Ok(files)
}

/// Sizes that the host must give a kernel, as its PTX says.
#[derive(PartialEq)]
struct Interface {
    parameter_bytes: u64,
    threads: u64,
}

impl Interface {
    fn declared(entry: &Entry) -> Self {
        let parameter_bytes = entry.fields.iter().map(|field| u64::from(field.bytes)).sum();
        Self { parameter_bytes, threads: entry.threads.into() }
    }

    fn of(module: &str) -> Self {
        let first_number = |text: &str| {
            let digits = text.split(|digit: char| !digit.is_ascii_digit());
            digits.filter(|digits| !digits.is_empty()).find_map(|digits| digits.parse().ok())
        };
        let mut interface = Self { parameter_bytes: 0, threads: 0 };
        let header = module.lines().take_while(|line| !line.starts_with('{'));
        for line in header.map(str::trim) {
            if line.starts_with(".param") {
                // `.param .align 8 .b8 name[112]`, or a number: `.param .u64 name`.
                let bytes = match line.rsplit_once('[') {
                    Some((_, size)) => first_number(size).unwrap_or(0),
                    None => line.split_whitespace().nth(1).and_then(first_number).unwrap_or(0) / 8,
                };
                interface.parameter_bytes += bytes;
            } else if let Some(threads) = line.strip_prefix(".maxntid") {
                interface.threads = first_number(threads).unwrap_or(0);
            }
        }
        interface
    }
}

impl std::fmt::Display for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { parameter_bytes, threads } = self;
        write!(f, "{parameter_bytes} bytes of parameters and blocks of {threads} threads")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_take_what_is_declared() {
        for entry in ENTRIES {
            let (declared, found) =
                (Interface::declared(entry), Interface::of(ptx::of_entry(entry)));
            assert!(declared == found, "{}: {declared}, {found}", entry.name);
        }
    }

    #[test]
    fn kernels_come_from_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third, ..] = ENTRIES else { panic!("there are kernels") };
        let changed =
            |entry| ptx::of_entry(entry).replace("ret;", "bar.warp.sync 0xffffffff;\n\tret;");
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("one.ptx"), changed(first)).unwrap();
        fs::write(folder.path().join("deep/two.ptx"), changed(second)).unwrap();
        fs::write(folder.path().join("README.md"), "not PTX").unwrap();
        let kernels = Kernels::read(folder.path()).unwrap();
        assert_eq!(kernels.ptx(first), changed(first));
        assert_eq!(kernels.ptx(second), changed(second));
        assert_eq!(kernels.ptx(third), ptx::of_entry(third));
        let one = Kernels::read(&folder.path().join("one.ptx")).unwrap();
        assert_eq!(one.ptx(first), changed(first));
        assert_eq!(one.ptx(second), ptx::of_entry(second));
    }

    #[test]
    fn what_is_no_kernel_of_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |text: &str, expected: &str| {
            let path = folder.path().join("k.ptx");
            fs::write(&path, text).unwrap();
            let error = Kernels::read(&path).unwrap_err().to_string();
            assert!(error.contains("k.ptx") && error.contains(expected), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        };
        let entry = &ENTRIES[0];
        let shipped = ptx::of_entry(entry);
        refused("", "no kernels");
        refused(&shipped.replace(entry.name, "mine"), "kernel mine: expected one that corrust has");
        refused(&shipped.replacen(".maxntid ", ".maxntid 1", 1), "blocks of 1");
        let bytes = shipped.split_once("_param_0[").unwrap().1.split_once(']').unwrap().0;
        let other = shipped.replacen(&format!("_param_0[{bytes}]"), "_param_0[8]", 1);
        refused(&other, "takes 8 bytes of parameters");
        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        assert!(Kernels::read(&empty).unwrap_err().to_string().contains("no files in .ptx"));
    }
}
