//! Files that a run reads and writes, checked together.
//!
//! A command names them before it computes anything. Outputs that would destroy an input, or fail when the
//! work is done, are refused here.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use clap::builder::{PathBufValueParser, TypedValueParser};
use corrust::{
    Error, Result,
    format::{PartialFile, dada, folder, is_stream, resolve},
};

use crate::cli::terminal::say::{error, note, take_stdout};

/// Paths that `-` stands for.
const STDIN: &str = "/dev/stdin";
const STDOUT: &str = "/dev/stdout";

/// Files that were there before.
static REPLACED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says which files a run that is done has replaced.
pub fn mention_replaced() {
    match &REPLACED.lock().unwrap_or_else(PoisonError::into_inner)[..] {
        [] => {}
        [one] => note(format_args!("{one} existed and was replaced")),
        all => note(format_args!("{} existed and were replaced", all.join(", "))),
    }
}

/// Forgets them: of a run that only checks.
pub fn replace_nothing() {
    REPLACED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// The parser of a file to read, `-` the standard input.
pub fn input() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| dash(path, STDIN))
}

/// The parser of a file to write, `-` the standard output.
pub fn output() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| dash(path, STDOUT))
}

fn dash(path: PathBuf, stream: &str) -> PathBuf {
    if path == Path::new("-") { stream.into() } else { path }
}

/// Treatment of files that exist.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Existing {
    /// Refuse to replace files that exist
    #[arg(long, global = true, hide_short_help = true)]
    no_clobber: bool,
}

/// The files of a run.
#[derive(Default)]
pub struct RunFiles<'a> {
    inputs: Vec<&'a Path>,
    outputs: Vec<Output<'a>>,
}

struct Output<'a> {
    path: &'a Path,
    /// Endings that its name may have; none where any will do.
    endings: &'static [&'static str],
    /// Whether the run keeps the file's contents, apart from its own part.
    updated: bool,
}

impl<'a> RunFiles<'a> {
    /// Files that are read.
    pub fn reads(mut self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.inputs.extend(paths.into_iter().map(PathBuf::as_path));
        self
    }

    /// Files that are written, of any name.
    pub fn writes(self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.writes_as(paths, &[])
    }

    /// Files that are written, whose names end in one of `endings`.
    pub fn writes_as(
        mut self,
        paths: impl IntoIterator<Item = &'a PathBuf>,
        endings: &'static [&'static str],
    ) -> Self {
        let outputs = paths.into_iter().map(|path| Output { path, endings, updated: false });
        self.outputs.extend(outputs);
        self
    }

    /// Files of which a part is replaced.
    pub fn updates(mut self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let outputs = paths.into_iter().map(|path| Output { path, endings: &[], updated: true });
        self.outputs.extend(outputs);
        self
    }

    /// Refuses outputs that are inputs or each other, that cannot be written, or that exist where they
    /// may not; keeps in mind which files will be replaced.
    pub fn check(self, existing: Existing) -> Result<()> {
        let identities: Vec<_> = self.inputs.iter().map(|input| Identity::of(input)).collect();
        for (index, input) in self.inputs.iter().enumerate() {
            if is_stream(input) && identities[..index].contains(&identities[index]) {
                return Err(Error::file(
                    input,
                    "is a pipe that is to be read twice: expected a file",
                ));
            }
        }
        let mut written: Vec<Identity> = Vec::new();
        let mut replaced = Vec::new();
        for Output { path, endings, updated } in self.outputs {
            let identity = Identity::of(path);
            if identities.contains(&identity) {
                return Err(Error::file(path, "is an input: expected another file to write"));
            }
            if written.contains(&identity) {
                return Err(Error::file(path, "is to hold two outputs: expected two files"));
            }
            if !endings.is_empty() && !endings.contains(&ending(path).as_str()) {
                let endings = endings.join(" or .");
                return Err(Error::file(path, format!("expected a name that ends in .{endings}")));
            }
            if path.is_file() && !updated && path != Path::new(STDOUT) {
                if existing.no_clobber {
                    let reason = "exists: expected a new name, because of --no-clobber";
                    return Err(Error::file(path, reason));
                }
                replaced.push(path.display().to_string());
            }
            if dada::is_ring(path) {
                let reason = "is a ring of PSRDADA, which beams go to: expected a file to write";
                return Err(Error::file(path, reason));
            }
            // The system itself gives the most reliable answer.
            PartialFile::create(path)?;
            if path == Path::new(STDOUT) {
                take_stdout();
            }
            written.push(identity);
        }
        *REPLACED.lock().unwrap_or_else(PoisonError::into_inner) = replaced;
        Ok(())
    }
}

/// Returns the part of a name after its last dot, in small letters.
pub fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// The file behind a name, so that two names of one file are equal.
enum Identity {
    /// A file's device and number, whatever its names.
    #[cfg(unix)]
    Number(u64, u64),
    /// Path of a file, whether it exists or not.
    Name(PathBuf),
    /// `/dev/null`, a terminal: never the same as another.
    Device,
}

impl Identity {
    fn of(path: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(found) = fs::metadata(path) {
            use std::os::unix::fs::{FileTypeExt, MetadataExt};
            if !found.file_type().is_char_device() {
                return Self::Number(found.dev(), found.ino());
            }
            if path != Path::new(STDIN) && path != Path::new(STDOUT) {
                return Self::Device;
            }
            return Self::Name(path.to_owned());
        }
        let target = resolve(path).unwrap_or_else(|_| path.to_owned());
        let found = target.canonicalize().or_else(|_| {
            let folder = folder(&target).canonicalize()?;
            Ok::<_, std::io::Error>(folder.join(target.file_name().unwrap_or_default()))
        });
        Self::Name(found.unwrap_or(target))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            #[cfg(unix)]
            (Self::Number(device, number), Self::Number(other_device, other_number)) => {
                (device, number) == (other_device, other_number)
            }
            (Self::Name(name), Self::Name(other)) => name == other,
            _ => false,
        }
    }
}

/// The first error of several outputs, each of which was written whatever became of the others; the rest
/// are said.
pub fn all<const N: usize>(results: [Result<()>; N]) -> Result<()> {
    let mut errors = results.into_iter().filter_map(Result::err);
    let first = errors.next();
    errors.for_each(error);
    first.map_or(Ok(()), Err)
}
