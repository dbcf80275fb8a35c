//! Tables of a plan: their keys are the options of the single commands.

use std::{collections::BTreeMap, path::Path};

use clap::{Args, Command, FromArgMatches};
use corrust::{Error, Result};
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::cli::{options::given::named, terminal::say::clap_sentence};

/// Keys of a table, each with its place in the text.
pub type Keys = BTreeMap<String, Spanned<Value>>;

/// A plan as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    pub input: Spanned<Keys>,
    #[serde(default)]
    pub visibilities: Vec<Spanned<Keys>>,
    #[serde(default)]
    pub beams: Vec<Spanned<Keys>>,
    #[serde(default)]
    pub grid: Vec<Spanned<Keys>>,
    #[serde(default)]
    pub power: Vec<Spanned<Keys>>,
    #[serde(default)]
    pub spectra: Vec<Spanned<Keys>>,
    #[serde(default)]
    pub kurtosis: Vec<Spanned<Keys>>,
}

/// The text of a plan, for errors that name its lines.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub path: &'a Path,
    pub text: &'a str,
}

impl Text<'_> {
    /// Reads the tables.
    pub fn tables(self) -> Result<Tables> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            self.error(at, message)
        })
    }

    /// An error at a place of the text.
    pub fn error(self, at: usize, what: impl std::fmt::Display) -> Error {
        let line = self.line(at);
        Error::file(self.path, format!("line {line}: {}", as_keys(&what.to_string())))
    }

    /// Number of the line of a place, from 1.
    fn line(self, at: usize) -> usize {
        1 + self.text.get(..at).unwrap_or_default().matches('\n').count()
    }

    /// The same of an error that a table's options led to: at the key that it names, or whose file it names, else at the table.
    pub fn located(self, table: &Spanned<Keys>, error: Error) -> Error {
        let error = named(error);
        match error {
            Error::Invalid(what) => self.error(about(table, &what), what),
            Error::File { ref path, .. } | Error::Io { ref path, .. } => {
                let named = naming(table, path).max();
                self.at(named.unwrap_or(table.span().start), error)
            }
            other => other,
        }
    }

    /// The same of an error about a file of one of several tables: at the last that names it, as others may have it.
    pub fn located_in<'a>(
        self,
        tables: impl IntoIterator<Item = &'a Spanned<Keys>>,
        error: Error,
    ) -> Error {
        let error = named(error);
        let (Error::File { path, .. } | Error::Io { path, .. }) = &error else { return error };
        let last = tables.into_iter().flat_map(|table| naming(table, path)).max();
        match last {
            Some(at) => self.at(at, error),
            None => error,
        }
    }

    /// An error about a file at a place of the text; the system's own stays one.
    fn at(self, at: usize, error: Error) -> Error {
        match error {
            Error::Io { path, action, source } => {
                let line = self.line(at);
                let path = format!("{}: line {line}: {}", self.path.display(), path.display());
                Error::Io { path: path.into(), action, source }
            }
            other => self.error(at, other),
        }
    }

    /// The options of a table, and `others` with them; `files` are arguments without a name.
    pub fn options<T: Args + FromArgMatches>(
        self,
        table: &Spanned<Keys>,
        others: impl IntoIterator<Item = String>,
        files: impl IntoIterator<Item = String>,
    ) -> Result<T> {
        let mut arguments: Vec<String> = others.into_iter().collect();
        for (key, value) in table.get_ref() {
            let said = self.value(key, value)?;
            match value.get_ref() {
                Value::Boolean(true) => arguments.push(format!("--{key}")),
                Value::Boolean(false) => {}
                _ => arguments.push(format!("--{key}={said}")),
            }
        }
        arguments.push("--".to_owned());
        arguments.extend(files);
        let mut command = T::augment_args(Command::new("table").no_binary_name(true));
        command = command.disable_help_flag(true);
        let parsed = command.try_get_matches_from_mut(&arguments).and_then(|matches| {
            T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
        });
        parsed.map_err(|error| {
            // Without advice on command lines.
            let sentence = clap_sentence(&error);
            let sentence = sentence.split("; to pass").next().unwrap_or_default();
            self.error(about(table, sentence), sentence)
        })
    }

    /// A value as an argument.
    fn value(self, key: &str, value: &Spanned<Value>) -> Result<String> {
        let said = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Boolean(said) => Some(said.to_string()),
            Value::Datetime(time) => Some(time.to_string()),
            Value::Array(_) | Value::Table(_) => None,
        };
        let found = match value.get_ref() {
            Value::Array(all) => {
                all.iter().map(said).collect::<Option<Vec<_>>>().map(|all| all.join(","))
            }
            one => said(one),
        };
        found.ok_or_else(|| {
            let at = value.span().start;
            self.error(
                at,
                format!("{key}: expected a text, a number, true or false, or a list of them"),
            )
        })
    }
}

/// Place of the key whose option a sentence names, or of the table within which it is, else of the whole table.
fn about(table: &Spanned<Keys>, sentence: &str) -> usize {
    let is_named = |key: &str| {
        // Keys of the table `flag` have shorter names than the options.
        let names = [format!("--{key}"), format!("--sk-{key}")];
        let mut words = sentence.split(|c: char| c.is_whitespace() || "'=,:()".contains(c));
        words.any(|word| names.iter().any(|name| name == word))
    };
    let within = |value: &Value| match value {
        Value::Table(keys) => keys.keys().any(|key| is_named(key)),
        _ => false,
    };
    let keys = || table.get_ref().iter();
    let found = keys().find(|(key, _)| is_named(key));
    let found = found.or_else(|| keys().find(|(_, value)| within(value.get_ref())));
    found.map_or(table.span().start, |(_, value)| value.span().start)
}

/// Places of the keys of a table that name a file.
fn naming<'a>(table: &'a Spanned<Keys>, path: &'a Path) -> impl Iterator<Item = usize> + 'a {
    let keys = table.get_ref().values();
    keys.filter(|value| names(value.get_ref(), path)).map(|value| value.span().start)
}

fn names(value: &Value, path: &Path) -> bool {
    match value {
        Value::String(text) => Path::new(text) == path,
        Value::Array(all) => all.iter().any(|each| names(each, path)),
        Value::Table(keys) => keys.values().any(|each| names(each, path)),
        _ => false,
    }
}

/// A sentence about options as one about keys: `--rate` is `rate`.
fn as_keys(sentence: &str) -> String {
    let mut keys = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(at) = rest.find("--") {
        let is_option = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-')
            && rest[at + 2..].starts_with(|c: char| c.is_ascii_lowercase());
        let kept = if is_option { at } else { at + 2 };
        keys += &rest[..kept];
        rest = &rest[at + 2..];
        if is_option {
            // Keys of the table `flag` have shorter names than the options.
            rest = rest.strip_prefix("sk-").unwrap_or(rest);
        }
    }
    keys + rest
}

/// Takes a key out of a table.
pub fn take_key(table: &mut Spanned<Keys>, key: &str) -> Option<Spanned<Value>> {
    table.get_mut().remove(key)
}
