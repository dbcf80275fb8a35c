//! Figures of other programs, of the record that `benches/peers/run` writes.

use std::{collections::BTreeMap, sync::LazyLock};

use corrust::bench::PEERS_H200;
use serde::Deserialize;

/// The packed correlator of Klages et al. on an AMD R9 280X, two products an instruction: products as a factor of
/// that GPU's multiply-adds, the paper's own figure.
pub const KLAGES_TIMES: f64 = 1.31;

static H200: LazyLock<Peers> =
    LazyLock::new(|| serde_json::from_str(PEERS_H200).expect("the record of peers is JSON"));

/// Record of other programs on a GPU.
#[derive(Debug, Deserialize)]
pub struct Peers {
    device: String,
    peers: BTreeMap<String, Peer>,
}

#[derive(Debug, Deserialize)]
struct Peer {
    results: Vec<Measured>,
}

/// A peer's time for a size.
#[derive(Debug, Deserialize)]
pub struct Measured {
    case: String,
    sizes: BTreeMap<String, u64>,
    /// Seconds of a launch, the median.
    pub seconds: f64,
    /// Useful operations, or else what the case counts, a second.
    pub rate: f64,
}

impl Measured {
    /// A size by its name; 0 where the case has none.
    pub fn size(&self, name: &str) -> u64 {
        self.sizes.get(name).copied().unwrap_or(0)
    }

    /// 10^12 operations a second.
    pub fn tops(&self) -> f64 {
        self.rate * 1e-12
    }
}

impl Peers {
    /// Peers on a model of GPU; none where none were measured, as figures of another would say nothing.
    pub fn of(device: &str) -> Option<&'static Self> {
        Some(&*H200).filter(|peers| peers.device == device)
    }

    /// Results of a peer's case, in the order of the record.
    pub fn results(&self, peer: &str, case: &str) -> impl Iterator<Item = &Measured> {
        let results = self.peers.get(peer).map(|peer| &peer.results);
        results.into_iter().flatten().filter(move |measured| measured.case == case)
    }
}
