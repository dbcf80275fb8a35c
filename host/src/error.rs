//! The one error type of the library.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Result of every fallible operation of corrust.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error as one sentence that names the file or argument, the value found and the value
/// expected. Nothing in corrust panics on input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument or a shape that cannot be computed with.
    #[error("{0}")]
    Invalid(String),
    /// A file whose contents are not what its format or the command asks for.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file at fault.
        path: PathBuf,
        /// The value found and the value expected.
        reason: String,
    },
    /// A setting that is missing, has no effect, or suits neither the file nor the machine. Sentences name it in the
    /// library's words; a program adds the name by which its users give it.
    #[error("{}{reason}", path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
    Setting {
        /// Name of the argument, or of the field of the options: `keep_going`, `rate`.
        setting: &'static str,
        /// The file that it is about, if it is about one.
        path: Option<PathBuf>,
        /// The value found and the value expected.
        reason: String,
    },
    /// The operating system refused to read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file at fault.
        path: PathBuf,
        /// Action that failed, as in "cannot *read*".
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The device asked for is not there, or failed.
    #[error("{0}")]
    Device(String),
    /// The device's memory is too small even for the smallest piece of the work.
    #[error(
        "{device} is out of memory: {needed} bytes are needed for the smallest piece of this work \
         and {available} are free"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        available: u64,
    },
    /// The caller asked the work on a recording to stop.
    #[error("cancelled at time {done} of {times}")]
    Cancelled {
        /// Times that were done.
        done: u64,
        /// Times to do.
        times: u64,
    },
}

impl Error {
    /// An [`Error::Invalid`] saying `message`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(plain(message.into()))
    }

    /// An [`Error::File`] about `path`.
    pub fn file(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self::File { path: path.as_ref().to_owned(), reason: plain(reason.into()) }
    }

    /// An [`Error::Setting`] about `setting`, of the file `path` if there is one.
    pub fn setting(setting: &'static str, path: Option<&Path>, reason: impl Into<String>) -> Self {
        Self::Setting { setting, path: path.map(Path::to_owned), reason: plain(reason.into()) }
    }

    /// A closure for `map_err` that makes an [`Error::Io`] about `path`.
    pub fn io(path: impl AsRef<Path>, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| {
            // An error that is nothing but its kind reads "entity not found".
            let bare = source.raw_os_error().is_none() && source.get_ref().is_none();
            let source = match source.kind() {
                ErrorKind::NotFound if bare => {
                    io::Error::new(ErrorKind::NotFound, "no such file or folder")
                }
                _ => source,
            };
            Self::Io { path, action, source }
        }
    }
}

/// A message that may quote a file, without characters that end lines or move a terminal's cursor.
fn plain(message: String) -> String {
    if !message.contains(char::is_control) {
        return message;
    }
    let escape = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    message.chars().map(escape).collect()
}
