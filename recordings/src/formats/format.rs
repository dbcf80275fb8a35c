//! Formats of recordings.

/// Formats of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Npy,
    Guppi,
    Dada,
    Vdif,
    Mark5b,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Npy => "NumPy",
            Self::Guppi => "GUPPI RAW",
            Self::Dada => "DADA",
            Self::Vdif => "VDIF",
            Self::Mark5b => "Mark 5B",
        })
    }
}
