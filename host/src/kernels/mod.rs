//! Names of kernels, and what each takes.

pub mod autocorrelate;
pub mod beamform;
pub mod channelise;
pub mod correlate;
pub mod upchannelise;

/// Defines `Kernel`, an enum whose variants are known by their names on the command line: `ALL`, `name`,
/// `Display`, and `FromStr`, whose error lists the names.
macro_rules! kernels {
    (
        $(#[$attribute:meta])*
        pub enum Kernel {
            $($(#[$about:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        #[serde(try_from = "String", into = "String")]
        #[non_exhaustive]
        pub enum Kernel {
            $($(#[$about])* $variant,)*
        }

        impl Kernel {
            /// Every kernel.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name used on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The kernel of a plan on a CPU, and what `by` has for it where the CPU has the instructions: one of
            /// `able`, the quickest first.
            pub(crate) fn on_cpu<T>(
                self,
                able: &[Self],
                by: impl Fn(Self) -> Option<T>,
            ) -> crate::error::Result<(Self, T)> {
                let found = match self {
                    Self::Auto => able.iter().find_map(|&kernel| Some((kernel, by(kernel)?))),
                    named if able.contains(&named) => by(named).map(|found| (named, found)),
                    named => {
                        let able = able.iter().map(|able| able.name());
                        let able = ["auto"].into_iter().chain(able).collect::<Vec<_>>().join(", ");
                        return Err(crate::error::Error::invalid(format!(
                            "kernel {named} does not run on a CPU: expected {able}"
                        )));
                    }
                };
                found.ok_or_else(|| {
                    crate::error::Error::Device(format!(
                        "kernel {self}: this CPU lacks the instructions, expected kernel auto"
                    ))
                })
            }
        }

        impl std::fmt::Display for Kernel {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for Kernel {
            type Err = crate::error::Error;

            fn from_str(text: &str) -> crate::error::Result<Self> {
                Self::ALL.iter().copied().find(|kernel| kernel.name() == text).ok_or_else(|| {
                    let names = [$($name),*].join(", ");
                    crate::error::Error::invalid(format!("unknown kernel {text:?}: expected one of {names}"))
                })
            }
        }

        impl TryFrom<String> for Kernel {
            type Error = crate::error::Error;

            fn try_from(text: String) -> crate::error::Result<Self> {
                text.parse()
            }
        }

        impl From<Kernel> for String {
            fn from(kernel: Kernel) -> Self {
                kernel.name().to_owned()
            }
        }

        #[cfg(test)]
        mod tests {
            use super::Kernel;

            #[test]
            fn names_round_trip() {
                for &kernel in Kernel::ALL {
                    assert_eq!(kernel.name().parse::<Kernel>().unwrap(), kernel);
                }
                let refused = "fastest".parse::<Kernel>().unwrap_err().to_string();
                assert!(Kernel::ALL.iter().all(|kernel| refused.contains(kernel.name())), "{refused}");
            }
        }
    };
}
pub(crate) use kernels;
