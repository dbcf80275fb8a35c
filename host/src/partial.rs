//! Files that appear under their final name only when complete.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tempfile::TempPath;

use crate::error::{Error, Result};

/// Names of the process's standard output.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Stands between the final name and what makes a temporary name the only one of its kind.
const MARK: &str = ".corrust-";

/// Ends the temporary name of every unfinished file.
const SUFFIX: &str = ".partial";

/// A file written under a temporary name in the destination's folder; [`finish`](Self::finish)
/// gives it its final name. Dropped before that, after an error for example, it leaves nothing.
///
/// A process that is killed leaves its unfinished files. [`create`](Self::create) removes those that
/// were meant for its target: every process holds a lock on each of its unfinished files, so that an
/// unlocked one is abandoned.
///
/// Output to a pipe, a terminal, `/dev/null` or the standard output (`/dev/stdout`) is kept in
/// the system's folder for temporary files and copied there by [`finish`](Self::finish).
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    file: BufWriter<File>,
    destination: Destination,
}

/// Destination of a finished file.
#[derive(Debug)]
enum Destination {
    /// The final name, or the target of its link; and the name until then.
    Name { target: PathBuf, unfinished: Unfinished },
    /// A stream that takes bytes one after the other.
    Stream,
}

impl PartialFile {
    /// Writes `value` as JSON to the file `path`, complete or not at all.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be said in JSON; [`Error::Io`] when the file cannot be written.
    pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Error::file(path, format!("cannot be written: {error}")))?;
        let mut file = Self::create(path)?;
        file.append((text + "\n").as_bytes())?;
        file.finish()
    }

    /// Starts a file that is to be called `path`.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder does not exist or cannot be written to; [`Error::File`] when
    /// `path` is a folder or a disk.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let kind = kind(path);
        if let Kind::Other(kind) = kind {
            let reason = format!("is {kind}: expected the name of a file to write");
            return Err(Error::file(path, reason));
        }
        let create = || -> io::Result<_> {
            if let Kind::Stream = kind {
                return Ok((tempfile::tempfile()?, Destination::Stream));
            }
            let target = resolve(path)?;
            // A name that is too long shows now, not when the file is finished.
            if let Err(error) = fs::symlink_metadata(&target)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            fs::metadata(folder(&target))?;
            let (file, unfinished) = Unfinished::create(&target)?;
            Ok((file, Destination::Name { target, unfinished }))
        };
        let (file, destination) =
            create().map_err(|error| Error::io(path, "write")(without_name(error)))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { path: path.to_owned(), file, destination })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name until the file is finished, for those who write it by name; [`None`] for what goes to a pipe.
    pub fn unfinished_name(&self) -> Option<&Path> {
        match &self.destination {
            Destination::Name { unfinished, .. } => unfinished.0.as_deref(),
            Destination::Stream => None,
        }
    }

    /// Makes the file `bytes` long; what has not been written reads as zeros.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be that long.
    pub fn set_length(&mut self, bytes: u64) -> Result<()> {
        self.file.get_ref().set_len(bytes).map_err(Error::io(&self.path, "write"))
    }

    /// Writes `bytes` at the current position.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written, for example to a full disk.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io(&self.path, "write"))
    }

    /// Writes `bytes` from byte `position` on.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be written, for example to a full disk.
    pub fn write_at(&mut self, position: u64, bytes: &[u8]) -> Result<()> {
        self.file.seek(SeekFrom::Start(position)).map_err(Error::io(&self.path, "write"))?;
        self.append(bytes)
    }

    /// Completes the file and gives it its final name, replacing a file of that name.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be completed or renamed; nothing is left of it then.
    pub fn finish(self) -> Result<()> {
        let Self { path, file, destination } = self;
        let finish = || -> io::Result<()> {
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            match destination {
                Destination::Name { target, unfinished } => unfinished.persist(&target),
                Destination::Stream => {
                    file.seek(SeekFrom::Start(0))?;
                    if is_stdout(&path) {
                        let mut stdout = io::stdout().lock();
                        io::copy(&mut file, &mut stdout)?;
                        stdout.flush()
                    } else {
                        let mut stream = File::options().write(true).open(&path)?;
                        io::copy(&mut file, &mut stream).map(drop)
                    }
                }
            }
        };
        finish().map_err(Error::io(&path, "write"))
    }
}

/// Removes the unfinished files of killed processes whose final names in the folder of `pattern` begin as its name does and go on with
/// a dash: `live/vis-20260301T120000.000000Z.npy` of `live/vis.npy`.
pub fn sweep_series(pattern: &Path) {
    let stem = pattern.file_stem().unwrap_or_default().to_string_lossy();
    sweep(folder(pattern), &format!(".{stem}-"));
}

/// Removes every unfinished file of this process, which is to end at once: a thread that starts or
/// finishes a file after that waits for ever.
pub fn abandon_partial_files() {
    let unfinished = unfinished();
    for path in &*unfinished {
        // A file that cannot be removed now is swept by the next to write this file.
        let _ = fs::remove_file(path);
    }
    std::mem::forget(unfinished);
}

/// An error without the name of the temporary file, which is to tell of the destination: the system's own words.
fn without_name(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() {
        return error;
    }
    let text = error.to_string();
    let (reason, _) = text.split_once(" at path ").unwrap_or((&text, ""));
    io::Error::new(error.kind(), reason)
}

/// Kind of thing that a name stands for before it is written.
enum Kind {
    /// A file, or nothing yet.
    File,
    Stream,
    /// A thing that cannot be written.
    Other(&'static str),
}

fn kind(path: &Path) -> Kind {
    if is_stdout(path) {
        return Kind::Stream;
    }
    let Ok(found) = fs::metadata(path) else { return Kind::File };
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if found.file_type().is_fifo() || found.file_type().is_char_device() {
            return Kind::Stream;
        }
    }
    match (found.is_file(), found.is_dir()) {
        (true, _) => Kind::File,
        (_, true) => Kind::Other("a folder"),
        // It would be replaced by a file of that name.
        _ => Kind::Other("a device"),
    }
}

/// Whether a name stands for a pipe, a terminal or another device that takes and gives bytes one after
/// the other.
pub fn is_stream(path: &Path) -> bool {
    matches!(kind(path), Kind::Stream)
}

fn is_stdout(path: &Path) -> bool {
    STDOUT.iter().any(|name| path == Path::new(name))
}

/// The name that a file gets: `path`, or the target of its link, which need not exist yet.
///
/// # Errors
/// When links go in circles.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            // A link is relative to the folder that it is in.
            Ok(link) => target = folder(&target).join(link),
            Err(_) => return Ok(target),
        }
    }
    fs::metadata(path).map(|_| target)
}

/// The folder that a name is in.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Temporary names of this process's unfinished files.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The temporary name of an unfinished file, which goes with it.
#[derive(Debug)]
struct Unfinished(Option<TempPath>);

impl Unfinished {
    /// Creates the unfinished file of `target`, and removes abandoned ones of the same target.
    fn create(target: &Path) -> io::Result<(File, Self)> {
        let (folder, prefix) = (folder(target), prefix(target));
        sweep(folder, &prefix);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(SUFFIX);
        #[cfg(unix)]
        {
            // Temporary files are private by default; results get what the umask allows.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let mut unfinished = unfinished();
        loop {
            let (file, path) = builder.tempfile_in(folder)?.into_parts();
            match file.try_lock() {
                // Another process may have taken it for abandoned before it was locked.
                Err(TryLockError::WouldBlock) => continue,
                Ok(()) if !path.exists() => continue,
                // Systems that cannot lock files remove no abandoned ones.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            unfinished.push(path.to_path_buf());
            return Ok((file, Self(Some(path))));
        }
    }

    /// Gives the file its final name.
    fn persist(mut self, target: &Path) -> io::Result<()> {
        let mut unfinished = unfinished();
        let Some(path) = self.0.take() else { return Ok(()) };
        unfinished.retain(|other| *other != *path);
        path.persist(target).map_err(|error| error.error)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            unfinished().retain(|other| *other != *path);
        }
    }
}

/// Beginning of the temporary names of a file.
fn prefix(target: &Path) -> String {
    /// Names are at most 255 bytes long, and those of two files may start alike.
    const LONGEST: usize = 200;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}{MARK}", &name[..name.floor_char_boundary(LONGEST)])
}

/// Removes abandoned unfinished files in a folder whose names start with `prefix`.
fn sweep(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_unfinished =
            |name: &str| name.starts_with(prefix) && name.contains(MARK) && name.ends_with(SUFFIX);
        if entry.file_name().to_str().is_some_and(is_unfinished)
            && let Ok(file) = File::options().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            // It may be another user's: then it is theirs to remove.
            let _ = fs::remove_file(entry.path());
        }
    }
}
