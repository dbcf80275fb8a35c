//! Interfaces of the network and the hooks of their drivers.

use std::{fmt, ops::RangeInclusive, str::FromStr};

/// Hook of the AF_XDP program: the driver or the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The driver, or the system where it cannot.
    #[default]
    Auto,
    /// The driver. Some have the interface write packets to this process's memory, without a copy.
    Native,
    /// The system, for any driver: packets are copied.
    Generic,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Native, Self::Generic];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("{text:?}: expected auto, native or generic"))
    }
}

/// Interface of the network and some of its queues, or all: `eth1`, `eth1:2`, `eth1:0-3`.
///
/// ```
/// use corrust_live::Interface;
///
/// let some: Interface = "eth1:0-3".parse().map_err(corrust_host::Error::invalid)?;
/// assert_eq!((&some.name[..], some.queues), ("eth1", Some(0..=3)));
/// assert!("eth1:3-0".parse::<Interface>().is_err());
/// # Ok::<(), corrust_host::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Numbers of queues; all where nothing is said.
    pub queues: Option<RangeInclusive<u32>>,
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let understand = || {
            let (name, queues) = match text.split_once(':') {
                None => (text, None),
                Some((name, queues)) => {
                    let (first, last) = queues.split_once('-').unwrap_or((queues, queues));
                    let queues = first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?;
                    (name, Some(queues).filter(|queues| !queues.is_empty())?.into())
                }
            };
            (!name.is_empty()).then(|| Self { name: name.to_owned(), queues })
        };
        understand().ok_or_else(|| {
            format!(
                "{text:?}: expected an interface, and queues of it if not all are meant, as eth1, eth1:2 or eth1:0-3"
            )
        })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.queues {
            None => Ok(()),
            Some(queues) if queues.start() == queues.end() => write!(f, ":{}", queues.start()),
            Some(queues) => write!(f, ":{}-{}", queues.start(), queues.end()),
        }
    }
}
