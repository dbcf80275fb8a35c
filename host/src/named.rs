//! A value that the program, or else the environment, names for all devices.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::error::{Error, Result};

/// Contents of a file that all devices use: set by the program, read once from the file that an environment
/// variable names, or none.
pub(crate) struct Named<T> {
    variable: &'static str,
    read: fn(&Path) -> Result<T>,
    contents: OnceLock<Result<Option<T>, String>>,
}

impl<T> Named<T> {
    pub(crate) const fn new(variable: &'static str, read: fn(&Path) -> Result<T>) -> Self {
        Self { variable, read, contents: OnceLock::new() }
    }

    /// Takes `contents` whatever the environment names.
    ///
    /// # Errors
    /// [`Error::Device`] when devices already use others.
    pub(crate) fn set(&self, contents: T) -> Result<()> {
        self.contents.set(Ok(Some(contents))).map_err(|_| {
            Error::Device(format!(
                "{}: devices already use what it names, expected another before the first plan",
                self.variable
            ))
        })
    }

    /// The contents, if something is named.
    ///
    /// # Errors
    /// [`Error::Device`] when the file cannot be read.
    pub(crate) fn get(&self) -> Result<Option<&T>> {
        let contents = self.contents.get_or_init(|| {
            let path = std::env::var_os(self.variable).filter(|path| !path.is_empty());
            path.map(|path| (self.read)(&PathBuf::from(path)))
                .transpose()
                .map_err(|error| error.to_string())
        });
        match contents {
            Ok(contents) => Ok(contents.as_ref()),
            Err(error) => Err(Error::Device(format!("{}: {error}", self.variable))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_sets_counts_unless_it_comes_too_late() {
        let named = Named::new("CORRUST_NOTHING_OF_THE_KIND", |_| Ok(0));
        named.set(7).unwrap();
        assert_eq!(named.get().unwrap(), Some(&7));
        let late = Named::new("CORRUST_NOTHING_OF_THE_KIND", |_| Ok(0));
        assert_eq!(late.get().unwrap(), None);
        let error = late.set(7).unwrap_err().to_string();
        assert!(error.starts_with("CORRUST_NOTHING_OF_THE_KIND: "), "{error}");
    }
}
