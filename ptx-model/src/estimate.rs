//! Seconds of a launch.
//!
//! Cycles of one warp alone ([`walk`]) and what all warps demand of each unit ([`Demands`]) go into a
//! closed network ([`queue`]); blocks are the customers where barriers part them into phases, else warps
//! are. Waves of blocks that do not fill the chip cost their share, and the clock follows the power
//! limit ([`power`]).

use std::{collections::BTreeMap, fmt};

use ptx_sim::{Class, Report};
use serde::Serialize;

use crate::{
    chip::{Chip, Energy},
    code::{self, Code, base},
    error::{Error, Result},
    flow,
    line::Line,
    occupancy::{SCHEDULERS, occupancy},
    power,
    queue::{self, Station},
    walk,
};

/// Work of a launch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Blocks of the grid.
    pub blocks: f64,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Blocks of a multiprocessor that the kernel's registers allow, as its PTX asks for.
    pub min_blocks: u32,
    /// Equal pieces of work that the grid's blocks take in turns, if they do.
    pub tiles: Option<f64>,
    /// Bytes that come from and go to device memory; none: what its lines touch.
    pub dram_bytes: Option<f64>,
    /// Bytes that come from and go to the L2 cache; none: judged by lines.
    pub l2_bytes: Option<f64>,
    /// Part of the bytes of device memory that is written.
    pub written: f64,
    /// Every line that ran.
    pub lines: Vec<Line>,
}

impl Counts {
    /// Counts of a report of one launch.
    pub fn of(report: &Report, threads: u32, shared_bytes: u32, min_blocks: u32) -> Self {
        let lines = report.sites.iter().map(|site| Line {
            line: site.line,
            opcode: site.opcode.to_string(),
            class: Some(site.class),
            from_registers: site.opcode.starts_with("wgmma.mma")
                && site.text.matches('{').count() > 1,
            warps: site.counts.warps as f64,
            wavefronts: site.counts.wavefronts as f64,
            sectors: site.counts.sectors as f64,
            ideal_sectors: site.counts.ideal_sectors as f64,
        });
        Self {
            blocks: report.blocks as f64,
            threads,
            shared_bytes,
            min_blocks,
            tiles: None,
            dram_bytes: None,
            l2_bytes: None,
            written: 0.0,
            lines: lines.collect(),
        }
    }

    /// Counts at a size that lies `by` steps from this one to the larger `other`, each count on a line.
    pub fn toward(&self, other: &Self, by: f64) -> Self {
        let mix = |a: f64, b: f64| (a + by * (b - a)).max(0.0);
        let key = |line: &Line| (line.line, line.opcode.clone());
        let mut lines: BTreeMap<_, (Line, Line)> = BTreeMap::new();
        let none = |line: &Line| Line {
            warps: 0.0,
            wavefronts: 0.0,
            sectors: 0.0,
            ideal_sectors: 0.0,
            ..line.clone()
        };
        for line in &self.lines {
            lines.insert(key(line), (line.clone(), none(line)));
        }
        for line in &other.lines {
            lines.entry(key(line)).or_insert_with(|| (none(line), none(line))).1 = line.clone();
        }
        let lines = lines.into_values().map(|(a, b)| Line {
            warps: mix(a.warps, b.warps),
            wavefronts: mix(a.wavefronts, b.wavefronts),
            sectors: mix(a.sectors, b.sectors),
            ideal_sectors: mix(a.ideal_sectors, b.ideal_sectors),
            ..b
        });
        Self {
            blocks: mix(self.blocks, other.blocks),
            lines: lines.filter(|line| line.warps > 0.0).collect(),
            ..other.clone()
        }
    }

    /// The same as often as `factor` says, by as many more blocks.
    pub fn times(mut self, factor: f64) -> Self {
        self.blocks *= factor;
        for line in &mut self.lines {
            line.warps *= factor;
            line.wavefronts *= factor;
            line.sectors *= factor;
            line.ideal_sectors *= factor;
        }
        self
    }

    /// Executions of lines whose opcode begins so.
    fn executed(&self, opcode: &str) -> f64 {
        let lines = self.lines.iter().filter(|line| line.opcode.starts_with(opcode));
        lines.map(|line| line.warps).sum()
    }

    /// Executions of lines of a class.
    fn of_class(&self, class: Class) -> f64 {
        self.lines.iter().filter(|line| line.class == Some(class)).map(|line| line.warps).sum()
    }

    /// Bytes of the L2 cache: lanes that leave parts of a sector are followed by accesses that take
    /// the rest from L1, except for stores and atomics, which go through.
    pub fn l2_bytes(&self) -> f64 {
        if let Some(bytes) = self.l2_bytes {
            return bytes;
        }
        let sectors = self.lines.iter().map(|line| match line.class {
            Some(Class::GlobalLoad) => line.ideal_sectors,
            _ => line.sectors,
        });
        32.0 * sectors.sum::<f64>()
    }

    /// Operations of matrix units by kind, and instructions.
    fn matrix(&self) -> (BTreeMap<&'static str, f64>, f64) {
        let (mut kinds, mut count) = (BTreeMap::new(), 0.0);
        for line in &self.lines {
            let Some(operations) = products(&line.opcode) else { continue };
            let warpgroup = line.opcode.starts_with("wgmma");
            let has = |part: &str| line.opcode.split('.').any(|p| p == part);
            let kind = match () {
                () if has("b1") => ["b1", "wg_b1"],
                () if has("s4") || has("u4") => ["s4", "wg_s8"],
                () if has("s8") || has("u8") => ["s8", "wg_s8"],
                () => ["f16", "wg_f16"],
            }[usize::from(warpgroup)];
            *kinds.entry(kind).or_default() += operations * line.warps;
            count += line.warps;
        }
        (kinds, count)
    }
}

/// Operations of a matrix statement by one warp.
fn products(opcode: &str) -> Option<f64> {
    let warps = match () {
        () if opcode.starts_with("wgmma.mma") => 4.0,
        () if opcode.starts_with("mma.") => 1.0,
        () => return None,
    };
    let shape = opcode.split('.').find(|part| {
        part.starts_with('m') && part[1..].starts_with(|c: char| c.is_ascii_digit())
    })?;
    let sizes = shape[1..].split(['n', 'k']).map(str::parse::<f64>);
    Some(
        2.0 * sizes.collect::<std::result::Result<Vec<_>, _>>().ok()?.iter().product::<f64>()
            / warps,
    )
}

/// A prediction.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// Seconds.
    pub seconds: f64,
    /// Least and most seconds: a factor to either side, wider without machine code. docs/estimates.md
    /// says how far it has been checked.
    pub range: (f64, f64),
    /// Unit that binds.
    pub binds: &'static str,
    /// Cycles for which each unit would be busy, by its name.
    pub cycles: BTreeMap<&'static str, f64>,
    /// Blocks of a multiprocessor.
    pub occupancy: u32,
    /// Resource that allows no more.
    pub limiter: &'static str,
    /// Registers of a thread, if the machine code is known.
    pub registers: Option<u32>,
    /// Bytes of a thread that are spilled, if the machine code is known.
    pub spilled: Option<u32>,
    /// Part of the instructions that load or store spilled registers, 0 to 1; 0 without machine code.
    pub spilling: f64,
    /// Clock of a run by itself, Hz.
    pub peak_hertz: f64,
    /// Seconds of one of many runs, at the clock that the power limit allows for long.
    pub sustained: f64,
    /// The clock, Hz.
    pub hertz: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.range;
        writeln!(
            f,
            "predicted: {:.4} ms ({:.4} to {:.4}), bound by {}",
            self.seconds * 1e3,
            low * 1e3,
            high * 1e3,
            self.binds
        )?;
        let whole = self.seconds * self.peak_hertz;
        for (unit, cycles) in &self.cycles {
            writeln!(f, "  {unit:<14} {:5.1} %", 100.0 * cycles / whole)?;
        }
        writeln!(f, "  blocks of a multiprocessor {} (limit: {})", self.occupancy, self.limiter)?;
        let [peak, long] = [self.peak_hertz, self.hertz].map(|hertz| hertz / 1e6);
        writeln!(
            f,
            "  clock {peak:.0} MHz; for long {long:.0} MHz, {:.4} ms",
            self.sustained * 1e3
        )?;
        match (self.registers, self.spilled) {
            (Some(registers), Some(spilled)) => {
                let share = 100.0 * self.spilling;
                writeln!(
                    f,
                    "  {registers} registers, {spilled} bytes spilled ({share:.2} % of instructions); from machine code"
                )
            }
            _ => writeln!(f, "  from PTX alone: no machine code, hence the wide range"),
        }
    }
}

/// Cycles of an instruction of a warp alone where there is no machine code: the median of the walks over
/// kernels of many kinds.
const CYCLES_OF_PTX: f64 = 3.5;
/// Part of the time of device memory that is lost where half of the bytes are written, doubled: kernels whose blocks
/// read and write take so much longer than the copy of the rows `limits`, which does nothing else. The one constant that is
/// fitted to measured times: those of the corner turns in `benches/record`.
const MIXED: f64 = 0.3;
/// Barriers of a warp up to which blocks go through their phases together.
const PHASES: f64 = 2.0;
/// Widths of the range, as factors: where arithmetic binds, and where memory or latency does; times another without
/// machine code.
const WIDTH: f64 = 1.25;
const WIDTH_OF_MEMORY: f64 = 1.5;
const WIDTH_OF_PTX: f64 = 1.25;

/// Instructions of all warps by the units that they take.
#[derive(Default)]
struct Mix {
    all: f64,
    alu: f64,
    multiply: f64,
    float: f64,
    special: f64,
    shuffles: f64,
    /// Loads and stores of spilled registers.
    spills: f64,
}

impl Mix {
    fn of_code(code: &Code, of: &[usize], flow: &flow::Flow) -> Self {
        let mut mix = Self::default();
        for (instruction, &block) in code.instructions.iter().zip(of) {
            let count = flow.blocks[block];
            mix.all += count;
            match base(code.operation(instruction)) {
                "LOP3" | "SHF" | "PRMT" | "ISETP" | "SEL" | "IADD3" | "LEA" | "IMNMX"
                | "VIMNMX" | "FSETP" | "FSEL" | "FMNMX" | "LOP" | "PLOP3" | "IABS" | "VIADD"
                | "VIADDMNMX" | "SGXT" | "BMSK" | "VABSDIFF" | "IADD" | "I2FP" | "MOV"
                | "HADD2" | "P2R" | "R2P" | "ICMP" | "FSET" | "I2IP" => mix.alu += count,
                "IMAD" | "IDP" | "IMUL" => mix.multiply += count,
                "FFMA" | "FADD" | "FMUL" | "HFMA2" | "HMUL2" => mix.float += count,
                "MUFU" | "POPC" | "I2F" | "F2I" | "FRND" | "F2F" | "FLO" | "BREV" => {
                    mix.special += count;
                }
                "F2FP" => {
                    mix.alu += count;
                    mix.special += count;
                }
                "SHFL" => mix.shuffles += count,
                "LDL" | "STL" => mix.spills += count,
                _ => {}
            }
        }
        mix
    }

    /// Guessed from the PTX: two fifths of the integer arithmetic that does not multiply become
    /// multiply-adds, too.
    fn of_ptx(counts: &Counts) -> Self {
        let of = |classes: &[Class]| classes.iter().map(|&c| counts.of_class(c)).sum::<f64>();
        let all: f64 = counts.lines.iter().map(|line| line.warps).sum();
        let multiplies = |line: &&Line| {
            line.class == Some(Class::Integer)
                && (line.opcode.starts_with("mad") || line.opcode.starts_with("mul"))
        };
        let products: f64 = counts.lines.iter().filter(multiplies).map(|line| line.warps).sum();
        let integer = of(&[Class::Integer]) - products;
        Self {
            all: all - of(&[Class::Move, Class::Parameter]) - 0.5 * of(&[Class::Control]),
            alu: 0.6 * integer + of(&[Class::Logic, Class::Compare, Class::Convert]),
            multiply: products + 0.4 * integer + of(&[Class::DotProduct]),
            float: of(&[Class::Float]),
            special: 0.0,
            shuffles: of(&[Class::Warp]),
            spills: 0.0,
        }
    }
}

/// Blocks that a multiprocessor holds, at least one, and the resource that allows no more.
pub(crate) fn resident_blocks(
    chip: &Chip,
    code: Option<&Code>,
    threads: u32,
    shared_bytes: u32,
    min_blocks: u32,
) -> Result<(u32, &'static str)> {
    let shared = shared_bytes + code.map_or(0, |code| code.shared);
    let registers = code.map_or(0, |code| code.registers);
    match occupancy(chip, threads, registers, shared) {
        (0, limit) => Err(Error::DoesNotFit { chip: chip.name.clone(), limit }),
        (fits, _) if code.is_none() && min_blocks > 0 && min_blocks < fits => {
            Ok((min_blocks, "registers that the kernel asks for"))
        }
        fits => Ok(fits),
    }
}

/// Place of a launch's blocks on a chip.
struct Placement {
    /// Warps of the launch and of a block.
    warps: f64,
    warps_of_block: f64,
    /// Blocks of a multiprocessor that fit, and the resource that allows no more.
    fits: u32,
    limiter: &'static str,
    /// Blocks that a multiprocessor holds at a time.
    resident: f64,
    /// Multiprocessors and schedulers that have work.
    multiprocessors: f64,
    schedulers: f64,
    warps_of_scheduler: f64,
    /// Cycles of the launch relative to those of whole waves of blocks.
    waves: f64,
}

impl Placement {
    fn of(counts: &Counts, code: Option<&Code>, chip: &Chip) -> Result<Self> {
        let warps_of_block = f64::from(counts.threads.div_ceil(32));
        let of_chip = f64::from(chip.multiprocessors);
        let (fits, limiter) =
            resident_blocks(chip, code, counts.threads, counts.shared_bytes, counts.min_blocks)?;
        let of_each = counts.blocks / of_chip;
        let resident = f64::from(fits).min(of_each.ceil()).max(1.0);
        let multiprocessors = of_chip * of_each.min(1.0);
        // The last wave of blocks, or of tiles that blocks take in turns.
        let waves = match counts.tiles {
            Some(tiles) => tiles / of_chip,
            None => counts.blocks / (of_chip * f64::from(fits)),
        };
        Ok(Self {
            warps: counts.blocks * warps_of_block,
            warps_of_block,
            fits,
            limiter,
            resident,
            multiprocessors,
            schedulers: multiprocessors * f64::from(SCHEDULERS).min(resident * warps_of_block),
            warps_of_scheduler: (resident * warps_of_block / f64::from(SCHEDULERS)).max(1.0),
            waves: match waves {
                waves if waves <= 1.0 => 1.0,
                waves if counts.tiles.is_some() || waves < 1.5 => waves.ceil() / waves,
                waves => (waves.floor() + waves.fract().sqrt()) / waves,
            },
        })
    }
}

/// Products of matrix units.
struct Products {
    /// Operations by kind, and instructions.
    kinds: BTreeMap<&'static str, f64>,
    instructions: f64,
    /// Cycles of one unit for all of them.
    cycles: f64,
    /// Whether warpgroups multiply.
    warpgroups: bool,
    /// Part of the products that other instructions of the scheduler wait for, and wait for them: all of mma.sync; of
    /// wgmma that takes registers as many as there are fences, before which registers are written.
    excluded: f64,
}

impl Products {
    fn of(counts: &Counts, chip: &Chip) -> Result<Self> {
        let (kinds, instructions) = counts.matrix();
        let rate = |kind: &str| *chip.tensor.get(kind).unwrap_or(&f64::NAN);
        let each = kinds.iter().map(|(kind, operations)| operations * 4.0 / rate(kind));
        let cycles = each.fold(0.0, |sum, cycles| sum + cycles);
        if cycles.is_nan() {
            return Err(Error::DoesNotFit {
                chip: chip.name.clone(),
                limit: "a kind of matrix product",
            });
        }
        let warpgroups = kinds.keys().any(|kind| kind.starts_with("wg_"));
        let from_registers = counts.lines.iter().any(|line| line.from_registers);
        let excluded = match (chip.mma_excludes && cycles > 0.0, warpgroups) {
            (true, false) => 1.0,
            (true, true) if from_registers => {
                (counts.executed("wgmma.fence") / counts.executed("wgmma.mma").max(1.0)).min(1.0)
            }
            _ => 0.0,
        };
        Ok(Self { kinds, instructions, cycles, warpgroups, excluded })
    }
}

/// Cycles of a launch's demands, each as if nothing else took time.
struct Demands {
    /// A warp's instructions one after another, on every scheduler.
    alone: f64,
    /// The busiest pipe of a scheduler.
    math: f64,
    /// Wavefronts of shared memory and of global accesses.
    l1: f64,
    l2: f64,
    /// Device memory, and how much longer it takes for reads mixed with writes, a factor in it.
    dram: f64,
    mixed: f64,
}

/// Bytes and wavefronts that a launch moves.
struct Traffic {
    l2_bytes: f64,
    dram_bytes: f64,
    /// Wavefronts of shared memory, and those of global accesses.
    wavefronts: f64,
    global: f64,
}

impl Traffic {
    fn of(counts: &Counts) -> Self {
        let l2_bytes = counts.l2_bytes();
        let global = counts.lines.iter().map(|line| match line.class {
            Some(Class::GlobalLoad | Class::GlobalStore | Class::Atomic) => {
                (line.sectors / 4.0).max(line.warps)
            }
            Some(Class::AsyncCopy) if !line.opcode.contains("bulk") => line.sectors / 4.0,
            _ => 0.0,
        });
        Self {
            l2_bytes,
            dram_bytes: counts.dram_bytes.unwrap_or(l2_bytes),
            wavefronts: counts.lines.iter().map(|line| line.wavefronts).sum(),
            global: global.sum(),
        }
    }

    /// Cycles until a load from global memory is answered, on average.
    fn latency(&self, chip: &Chip) -> f64 {
        let misses = (self.dram_bytes / self.l2_bytes.max(1.0)).min(1.0);
        (1.0 - misses) * chip.latency.l2 + misses * chip.latency.dram
    }
}

/// Cycles that a scheduler keeps its pipes busy, by their names: 16 lanes of integers, 4 of the special unit.
fn pipes(
    mix: &Mix,
    products: &Products,
    chip: &Chip,
    schedulers: f64,
) -> BTreeMap<&'static str, f64> {
    let (integer, multiply) = (2.0 * mix.alu, 2.0 * mix.multiply);
    let float = chip.float_cycles * mix.float;
    let mut tensor = products.cycles;
    if products.excluded > 0.0 {
        let others = mix.all - products.instructions - mix.alu - mix.multiply - mix.float;
        tensor += products.excluded * (integer + multiply + float + others.max(0.0));
    }
    let pipes = [
        ("issue", mix.all),
        ("integer", integer),
        ("multiply-add", multiply + float),
        ("special", 8.0 * mix.special),
        ("tensor", tensor),
    ];
    pipes.into_iter().map(|(pipe, cycles)| (pipe, cycles / schedulers)).collect()
}

/// Cycles of whole waves of blocks: the network of warps or blocks that share the demands.
fn cycles(
    (counts, code): (&Counts, Option<&Code>),
    placement: &Placement,
    products: &Products,
    demands: &Demands,
) -> f64 {
    let has = |names: &[&str], opcodes: &[&str]| match code {
        Some(code) => names.iter().any(|name| code.has(name)),
        None => counts.lines.iter().any(|l| opcodes.iter().any(|o| l.opcode.starts_with(o))),
    };
    let &Demands { alone, math, l1, l2, dram, mixed } = demands;
    let &Placement { resident, .. } = placement;
    let memory = l2.max(dram);
    let barriers = has(&["BAR"], &["bar."]);
    let phases = barriers && !has(&["LDGSTS", "UTMALDG", "UBLKCP"], &["cp.async"]);
    // A warpgroup gives its registers away: it only copies.
    let gives = products.warpgroups && has(&["USETMAXREG"], &["setmaxnreg"]);
    let copiers = if gives { 1.0 } else { 0.0 };
    let customers = (placement.warps_of_scheduler - copiers).max(1.0);
    let serial = alone.max(math);
    if phases && counts.executed("bar") <= PHASES * placement.warps {
        // Blocks of few phases begin and end together: they load, compute and store all at once.
        math.max(l1) + l2.max(dram / mixed)
    } else if phases {
        // Blocks are the customers: their phases follow each other.
        let each = counts.blocks / placement.multiprocessors;
        let delay = (serial - math) / each / placement.warps_of_block * f64::from(SCHEDULERS);
        let stations = [math / each, l1 / each, memory / each];
        let cycles = each / queue::in_turn(resident as u32, delay, &stations);
        // A block alone overlaps some of its phases.
        if resident > 1.0 { cycles } else { (cycles + math.max(l1).max(memory)) / 2.0 }
    } else if resident <= 1.0 && (products.warpgroups || products.excluded > 0.0 || barriers) {
        // Bounds beside each other, with a smooth corner.
        let own = (math + (serial - math) / customers).max(l1);
        [own, memory, l1].iter().map(|bound| bound.powi(4)).sum::<f64>().powf(0.25)
    } else {
        let shared = [l1, memory].map(|cycles| Station { demand: cycles / 4.0, share: 4.0 });
        1.0 / queue::beside(customers, serial - math, math, &shared)
    }
}

/// Energy of a launch in joules at the highest clock.
fn joules(mix: &Mix, products: &Products, traffic: &Traffic, energy: &Energy) -> f64 {
    let operations = |kind: &str| products.kinds.get(kind).copied().unwrap_or_default();
    (operations("s8") + operations("wg_s8")) * energy.s8
        + operations("wg_f16") * energy.wg_f16
        + operations("f16") * energy.f16
        + traffic.dram_bytes * energy.dram
        + traffic.wavefronts * 128.0 * energy.shared
        + (traffic.l2_bytes - traffic.dram_bytes).max(0.0) * energy.l2
        + mix.all * energy.instruction
}

/// Predicts the time of a launch; without machine code from the PTX's counts alone.
pub fn estimate(counts: &Counts, code: Option<&Code>, chip: &Chip) -> Result<Estimate> {
    let filled = counts.blocks > 0.0 && counts.threads > 0;
    if !filled {
        return Err(Error::Empty);
    }
    let placement = Placement::of(counts, code, chip)?;
    let traffic = Traffic::of(counts);
    let products = Products::of(counts, chip)?;
    let (mix, cycles_of_instruction) = match code {
        Some(code) => {
            let blocks = code.blocks();
            let flow = flow::solve(code, &blocks, &counts.lines, placement.warps);
            let each = walk::cycles(code, &blocks, &flow, chip, traffic.latency(chip));
            (Mix::of_code(code, &blocks.of, &flow), each)
        }
        None => (Mix::of_ptx(counts), CYCLES_OF_PTX),
    };
    let Placement { multiprocessors, schedulers, .. } = placement;

    let mut units = pipes(&mix, &products, chip, schedulers);
    let mixed = 1.0 + MIXED * counts.written.min(1.0 - counts.written);
    let demands = Demands {
        alone: cycles_of_instruction * mix.all / schedulers,
        math: units.values().copied().fold(0.0, f64::max),
        l1: (traffic.wavefronts + traffic.global + mix.shuffles) / multiprocessors,
        // Bytes that come from device memory pass the L2 cache twice.
        l2: (traffic.l2_bytes + traffic.dram_bytes) / chip.l2_bytes_per_clock,
        dram: mixed * traffic.dram_bytes / (chip.dram_bytes_per_second / chip.hertz()),
        mixed,
    };
    units.extend([
        ("L1 and shared", demands.l1),
        ("L2", demands.l2),
        ("device memory", demands.dram),
        ("latency", demands.alone / placement.warps_of_scheduler),
    ]);
    let cycles = cycles((counts, code), &placement, &products, &demands) * placement.waves;

    let binds = units.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or("latency", |unit| unit.0);
    let after = binds == "device memory";
    let own = if after { (cycles - demands.dram).max(0.0) } else { cycles };
    let time = power::Time { cycles: own, memory: demands.dram / chip.hertz(), after };
    let [peak_hertz, hertz] = [chip.peak_watts, chip.watts].map(|limit| {
        chip.energy.map_or(chip.hertz(), |energy| {
            let joules = joules(&mix, &products, &traffic, &energy);
            power::clock(time, joules, chip.hertz(), limit, &energy)
        })
    });
    let [seconds, sustained] =
        [peak_hertz, hertz].map(|hertz| time.at(hertz) + chip.launch_seconds);
    let arithmetic = ["tensor", "multiply-add"].contains(&binds);
    let width = if arithmetic { WIDTH } else { WIDTH_OF_MEMORY };
    let width = width * if code.is_some() { 1.0 } else { WIDTH_OF_PTX };
    Ok(Estimate {
        seconds,
        range: (seconds / width, seconds * width),
        binds,
        cycles: units,
        occupancy: placement.fits,
        limiter: placement.limiter,
        registers: code.map(|code| code.registers),
        spilled: code.map(|code| code.spilled),
        spilling: mix.spills / mix.all.max(1.0),
        peak_hertz,
        sustained,
        hertz,
    })
}

/// Machine code of an entry of ours for a chip, if it is shipped.
pub fn shipped(entry: &str, chip: &Chip) -> Option<&'static Code> {
    code::shipped(&chip.arch)?.get(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of `gigabytes`, 16 bytes a lane.
    fn copy(gigabytes: f64) -> Counts {
        let warps = gigabytes * 1e9 / 2.0 / 512.0;
        let line = |line, opcode: &str, class| Line {
            line,
            opcode: opcode.to_owned(),
            class: Some(class),
            warps,
            sectors: warps * 16.0,
            ideal_sectors: warps * 16.0,
            ..Line::default()
        };
        Counts {
            blocks: warps / 8.0,
            threads: 256,
            lines: vec![
                line(1, "ld.global.v4.u32", Class::GlobalLoad),
                line(2, "st.global.v4.u32", Class::GlobalStore),
            ],
            ..Counts::default()
        }
    }

    #[test]
    fn a_copy_takes_the_time_of_its_bytes() {
        for name in ["a100", "a40", "h100"] {
            let chip = Chip::named(name).unwrap();
            let made = estimate(&copy(1.0), None, &chip).unwrap();
            let least = 1e9 / chip.dram_bytes_per_second;
            assert!((1.0..1.3).contains(&(made.seconds / least)), "{name}: {made}");
            assert!(made.range.0 < made.seconds && made.seconds < made.range.1);
        }
    }

    #[test]
    fn matrix_products_go_at_the_rate_of_their_kind() {
        let chip = Chip::named("a100").unwrap();
        let mut counts = copy(1e-3);
        let warps = 1e7;
        counts.lines.push(Line {
            line: 3,
            opcode: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32".to_owned(),
            class: Some(Class::Tensor),
            warps,
            ..Line::default()
        });
        counts.blocks = 2160.0;
        let made = estimate(&counts, None, &chip).unwrap();
        let least = warps * 8192.0 / (4096.0 * 108.0 * chip.hertz());
        assert_eq!(made.binds, "tensor");
        assert!((1.0..1.2).contains(&(made.seconds / least)), "{made}");
    }

    #[test]
    fn a_block_that_does_not_fit_is_refused() {
        let chip = Chip::named("a40").unwrap();
        let counts = Counts { shared_bytes: 163_840, ..copy(1.0) };
        let error = estimate(&counts, None, &chip).unwrap_err().to_string();
        assert_eq!(error, "a block does not fit into a multiprocessor of a40: shared memory");
        let none = Counts { blocks: 0.0, ..copy(1.0) };
        assert!(matches!(estimate(&none, None, &chip), Err(Error::Empty)));
    }
}
