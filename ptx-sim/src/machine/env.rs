//! The launch, as every block of it sees it.

use super::shadow::Shadow;
use super::shared::Checks;
use crate::error::brief;
use crate::lanes::Registers;
use crate::memory::View;
use crate::program::Program;
use crate::tensor::sum::Tensor;

/// Clusters of a launch that are run for its counts.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// Numbers of the clusters, x varying fastest; of kernels without clusters, of blocks.
    pub clusters: &'a [u64],
    /// Bytes of L1 that a block has for itself.
    pub l1_bytes: u32,
    /// Bytes of L2 that a block has for itself.
    pub l2_bytes: u32,
}

/// Launch parameters shared by every block.
pub struct Env<'a> {
    pub program: &'a Program,
    pub view: &'a View,
    pub params: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y, z.
    pub cluster: [u32; 3],
    /// Whether the launch or the text asked for clusters.
    pub explicit_cluster: bool,
    pub shared_bytes: u32,
    pub dynamic_bytes: u32,
    /// Initial contents of every warp's registers, special registers excepted.
    pub registers: Registers,
    /// Rounding of the sums of matrix units.
    pub tensor: Tensor,
    pub checks: Checks,
    /// Records of global memory, where races there are checked.
    pub shadow: Option<Shadow>,
    /// Clusters to run, and how their work is counted, where not all run.
    pub sample: Option<Sample<'a>>,
}

impl Env<'_> {
    /// Number of blocks of a cluster.
    pub fn cluster_size(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Clusters along x, y, z.
    pub fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis] / self.cluster[axis])
    }

    /// Place in the grid of block `rank` of the cluster whose first block is `first`.
    pub fn block_of(&self, first: [u32; 3], rank: u32) -> [u32; 3] {
        let [x, y, _] = self.cluster;
        [first[0] + rank % x, first[1] + rank / x % y, first[2] + rank / x / y]
    }

    /// Rank of a block in its cluster.
    pub fn rank(&self, block: [u32; 3]) -> u32 {
        let [x, y, z]: [u32; 3] = std::array::from_fn(|axis| block[axis] % self.cluster[axis]);
        (z * self.cluster[1] + y) * self.cluster[0] + x
    }

    /// Number of a block among all, those of a cluster behind each other.
    pub fn number(&self, block: [u32; 3]) -> u32 {
        let [width, height, _] = self.clusters();
        let [x, y, z]: [u32; 3] = std::array::from_fn(|axis| block[axis] / self.cluster[axis]);
        ((z * height + y) * width + x) * self.cluster_size() + self.rank(block)
    }

    /// Line and text of a statement, for the end of a sentence.
    pub fn line(&self, source: u16) -> String {
        let source = self.program.sources.get(usize::from(source));
        source.map_or(String::new(), |s| format!(" on line {} `{}`", s.line, brief(&s.text)))
    }

    /// Place in the grid of the block with this number.
    pub fn place(&self, number: u32) -> [u32; 3] {
        let [width, height, _] = self.clusters();
        let (cluster, rank) = (number / self.cluster_size(), number % self.cluster_size());
        let at = [cluster % width, cluster / width % height, cluster / width / height];
        self.block_of(std::array::from_fn(|axis| at[axis] * self.cluster[axis]), rank)
    }
}
