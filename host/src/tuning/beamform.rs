//! The beamformer's section of a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, positive};
use crate::kernels::beamform::{tiles, tiles_of_every_gpu};

/// Numbers by which the beamformer chooses the tiles and passes of its kernel, for the least time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beamform {
    /// Microseconds that 2^20 times of one tile's beams and dishes take, by the name of the tile's kernel.
    /// Tiles that are not listed are not chosen.
    pub tiles: BTreeMap<String, f64>,
    /// Microseconds, per beam, by which every further pass over dishes takes longer for 2^20 times than its
    /// products alone: sums go to memory and come back.
    pub pass: f64,
}

impl Beamform {
    /// Cost of a tile; a tile without a number costs more than all others.
    pub(crate) fn tile(&self, kernel: &str) -> f64 {
        self.tiles.get(kernel).copied().unwrap_or(f64::INFINITY)
    }

    /// Finds a value that plans cannot go by.
    pub(super) fn check(&self) -> Result<(), Fault> {
        for (tile, &cost) in &self.tiles {
            if !tiles().any(|known| known.name == tile) {
                return Err(("beamform.tiles".to_owned(), format!("unknown kernel {tile:?}")));
            }
            positive(format!("beamform.tiles.{tile}"), cost)?;
        }
        let missing = tiles_of_every_gpu().find(|known| !self.tiles.contains_key(known.name));
        if let Some(missing) = missing {
            let reason = format!("kernel {} is missing", missing.name);
            return Err(("beamform.tiles".to_owned(), reason));
        }
        if !(self.pass >= 0.0 && self.pass.is_finite()) {
            let reason = format!("found {}, 0 or more is needed", self.pass);
            return Err(("beamform.pass".to_owned(), reason));
        }
        Ok(())
    }
}
