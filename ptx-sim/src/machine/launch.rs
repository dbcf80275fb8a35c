//! Starting a grid.

use super::env::{Env, Sample};
use super::grid::Grid;
use super::shadow::Shadow;
use super::shared::Checks;
use super::traffic::Traffic;
use crate::error::Error;
use crate::lanes::{LANES, Mask, Registers};
use crate::memory::Memory;
use crate::module::Module;
use crate::program::{Constant, Program, cluster_blocks};
use crate::report::{Report, SameValue};
use crate::tensor::sum::Tensor;

/// Threads of a block at most.
const MAX_THREADS: u128 = 1024;
/// Blocks of a grid at most.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Shared memory of a block at most, in bytes (sm_90).
const MAX_SHARED: u64 = 227 * 1024;

/// Entry to run, and its numbers of threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// The parameters, packed as [`crate::Entry::params`] says.
    pub params: &'a [u8],
    /// Blocks of a cluster along x, y, z, as `cuLaunchKernelEx` takes them; none: as the text says.
    pub cluster: Option<[u32; 3]>,
    /// Rounding of the sums of matrix units.
    pub tensor: Tensor,
}

/// Runs a kernel to its end, with every check.
///
/// # Errors
/// [`Error::Launch`] when the launch is impossible, [`Error::Fault`] when the kernel makes a mistake.
/// Global memory then holds whatever was written up to that point.
pub fn launch(module: &Module, memory: &Memory, launch: Launch) -> Result<Report, Error> {
    launch_with(module, memory, launch, Checks::default())
}

/// As [`launch`], with a choice of checks.
///
/// # Errors
/// As for [`launch`].
pub fn launch_with(
    module: &Module,
    memory: &Memory,
    launch: Launch,
    checks: Checks,
) -> Result<Report, Error> {
    run(module, memory, launch, checks, None).map(|(report, _)| report)
}

/// Runs some clusters of a launch for their counts, and notes the global memory that they touch. Products of matrices
/// are counted and left out, so that results mean nothing, and nothing is checked.
///
/// # Errors
/// As for [`launch`]; [`Error::Launch`] for a cluster that the grid lacks.
pub fn sample(
    module: &Module,
    memory: &Memory,
    launch: Launch,
    sample: Sample,
) -> Result<(Report, Traffic), Error> {
    run(module, memory, launch, Checks::NONE, Some(sample))
}

/// Shape of the clusters of a launch: declared by the PTX, or requested by the launch.
fn cluster(program: &Program, grid: [u32; 3], asked: Option<[u32; 3]>) -> Result<[u32; 3], String> {
    if let Some(asked) = asked {
        let blocks = cluster_blocks(asked)?;
        if let Some(built) = program.cluster.filter(|&built| built != asked) {
            return Err(format!(
                "clusters of {asked:?} blocks, but the kernel was built for {built:?} (.reqnctapercluster)"
            ));
        }
        if let Some(most) = program.max_cluster.filter(|&most| blocks > most) {
            return Err(format!(
                "clusters of {blocks} blocks, but the kernel was built for {most} at most (.maxclusterrank)"
            ));
        }
    }
    if program.explicit_cluster && program.cluster.or(asked).is_none() {
        return Err("the kernel must be launched with clusters (.explicitcluster)".into());
    }
    let shape = program.cluster.or(asked).unwrap_or([1; 3]);
    for ((blocks, extent), axis) in grid.into_iter().zip(shape).zip(["x", "y", "z"]) {
        if !blocks.is_multiple_of(extent) {
            return Err(format!(
                "a grid of {blocks} blocks along {axis}, expected a multiple of {extent}: a cluster"
            ));
        }
    }
    Ok(shape)
}

/// Number of blocks or threads of a shape.
fn product(shape: [u32; 3]) -> u128 {
    shape.iter().map(|&n| u128::from(n)).product()
}

/// Checks that a kernel can be launched so. Returns the shape of its clusters and the bytes of shared memory of a block.
fn check(program: &Program, launch: &Launch) -> Result<([u32; 3], u32), String> {
    let threads = product(launch.block);
    if threads == 0 || threads > MAX_THREADS {
        return Err(format!(
            "a block of {:?} has {threads} threads, expected 1 to {MAX_THREADS}",
            launch.block
        ));
    }
    if let Some(max) = program.maxntid {
        let exact = program.reqntid && threads != product(max);
        if exact || threads > product(max) {
            return Err(format!(
                "a block of {:?} does not fit the {:?} that the kernel was built for",
                launch.block, max
            ));
        }
    }
    let beyond = launch.grid.iter().zip(MAX_GRID).any(|(&blocks, most)| blocks > most);
    if product(launch.grid) == 0 || beyond {
        return Err(format!("a grid of {:?}, expected 1 to {MAX_GRID:?}", launch.grid));
    }
    let cluster = cluster(program, launch.grid, launch.cluster)?;
    let (found, expected) = (launch.params.len(), program.param_bytes);
    if found != expected as usize {
        return Err(format!("{found} parameter bytes, expected {expected}"));
    }
    let shared = match launch.shared_bytes {
        0 => u64::from(program.shared_bytes),
        bytes => u64::from(program.dynamic_base) + u64::from(bytes),
    };
    if shared > MAX_SHARED {
        return Err(format!("{shared} bytes of shared memory, at most {MAX_SHARED} exist"));
    }
    Ok((cluster, shared as u32))
}

/// Registers of a warp that begins, with the kernel's constants.
fn registers(program: &Program, variables: &[u64]) -> Registers {
    let mut registers = Registers {
        narrow: vec![[0; LANES]; program.narrow as usize],
        wide: vec![[0; LANES]; program.wide as usize],
        predicates: vec![0; program.predicates as usize],
    };
    for &(reg, constant) in &program.constants {
        let value = match constant {
            Constant::Bits(bits) => bits,
            Constant::Variable { index, offset } => {
                variables[index as usize].wrapping_add_signed(offset)
            }
            Constant::Dynamic { offset } => {
                u64::from(program.dynamic_base).wrapping_add_signed(offset)
            }
            Constant::Special(_) => continue,
        };
        registers.set_bits(reg, Mask::MAX, &[value; LANES]);
    }
    registers
}

fn run(
    module: &Module,
    memory: &Memory,
    launch: Launch,
    checks: Checks,
    sample: Option<Sample>,
) -> Result<(Report, Traffic), Error> {
    let refuse = |message: String| Error::Launch { entry: launch.entry.to_owned(), message };
    let program = module.program(launch.entry)?;
    let (shape, shared_bytes) = check(program, &launch).map_err(refuse)?;
    let cluster: u32 = shape.iter().product();
    let mut blocks = product(launch.grid) as u64;
    if let Some(sample) = sample {
        let clusters = blocks / u64::from(cluster);
        if let Some(beyond) = sample.clusters.iter().find(|&&index| index >= clusters) {
            return Err(refuse(format!("a sample with cluster {beyond} of {clusters}")));
        }
    }
    let variables = memory.variables(module.id(), || module.place(memory))?;
    let view = memory.view();
    let env = Env {
        program,
        view: &view,
        params: launch.params,
        grid: launch.grid,
        block: launch.block,
        cluster: shape,
        explicit_cluster: program.cluster.or(launch.cluster).is_some(),
        shared_bytes,
        dynamic_bytes: launch.shared_bytes,
        registers: registers(program, &variables),
        tensor: launch.tensor,
        checks,
        shadow: checks.global.then(|| Shadow::new(program.global_granule)),
        sample,
    };
    let (counts, traffic) = Grid::new(&env, blocks).run().map_err(|error| match error {
        Error::Fault(mut fault) => {
            let threads = product(launch.block);
            if let Some(most) = program.maxntid.map(product).filter(|&most| threads < most) {
                fault.message += &format!(
                    "; the launch has {threads} threads a block, the kernel was built for {most} (.maxntid)"
                );
            }
            Error::Fault(fault)
        }
        error => error,
    })?;
    if let Some(sample) = sample {
        blocks = sample.clusters.len() as u64 * u64::from(cluster);
    }
    let mut report = Report::new(launch.entry, blocks, &program.sources, &counts);
    if let Some(shadow) = env.shadow {
        report.partly_checked = shadow.incomplete();
        let line = |source: u16| program.sources.get(usize::from(source)).map_or(0, |s| s.line);
        report.same_value = SameValue::list(&shadow.same(), line);
    }
    Ok((report, traffic))
}
