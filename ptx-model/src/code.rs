//! Machine code (SASS) of a kernel: instructions with control codes, basic blocks, digests.
//!
//! The text is what `nvdisasm -gp -c -hex` prints of what `ptxas -lineinfo` made. Bits 41 to 61 of an
//! instruction's second word are its control code: stall cycles (4 bits), yield, the scoreboard that it
//! sets when it has written (3), the one when it has read (3), and those that it waits for (6); Jia et
//! al., "Dissecting the NVIDIA Volta GPU Architecture", arXiv:1804.06826, section 2.1.
//!
//! A digest holds what an [`estimate`](crate::estimate()) needs of many kernels, deflated: our kernels'
//! are shipped, so that no CUDA tool is needed for them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::OnceLock,
};

use miniz_oxide::{deflate::compress_to_vec, inflate::decompress_to_vec};

use crate::error::{Error, Result};

/// No scoreboard, no target.
const NONE: u8 = 7;

/// Machine code of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread that went to local memory.
    pub spilled: u32,
    /// Bytes of shared memory that the kernel declares itself.
    pub shared: u32,
    /// Names of operations, with the modifiers that matter here.
    pub operations: Vec<String>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Index of its operation in [`Code::operations`].
    pub operation: u16,
    /// Line of the PTX; 0: unknown.
    pub line: u32,
    /// Cycles before the next instruction of the warp.
    pub stall: u8,
    /// Scoreboard that it sets when it has written; 7: none.
    pub writes: u8,
    /// Scoreboard that it sets when it has read; 7: none.
    pub reads: u8,
    /// Scoreboards that it waits for, by bits.
    pub waits: u8,
    /// Whether a predicate may keep it from running.
    pub conditional: bool,
    /// Index of the instruction that it branches to.
    pub target: Option<u32>,
}

/// Operation without modifiers.
pub fn base(operation: &str) -> &str {
    operation.split(['.', ':']).next().unwrap_or_default()
}

/// Whether an operation is one of matrix units.
pub fn is_matrix(operation: &str) -> bool {
    matches!(base(operation), "IMMA" | "HMMA" | "BMMA") || is_warpgroup(operation)
}

/// Whether an operation is a warpgroup's, of matrix units.
pub fn is_warpgroup(operation: &str) -> bool {
    matches!(base(operation), "HGMMA" | "IGMMA" | "BGMMA" | "QGMMA")
}

/// Kind (as a chip's `tensor` names it) and operations of a warp's matrix instruction.
pub fn matrix(operation: &str) -> (&'static str, f64) {
    let name = base(operation);
    let numbers = |part: &str| -> Option<f64> {
        let sizes: Vec<f64> = part.split('x').map_while(|s| s.parse().ok()).collect();
        (sizes.len() == 3).then(|| sizes.iter().product())
    };
    if is_warpgroup(operation) {
        let products = operation.split(['.', ':']).find_map(numbers).unwrap_or_default();
        let kind = match name {
            "HGMMA" => "wg_f16",
            "BGMMA" => "wg_b1",
            _ => "wg_s8",
        };
        // Four warps share it.
        return (kind, 2.0 * products / 4.0);
    }
    let has = |part: &str| operation.split('.').any(|p| p == part);
    let [m, n, k] = match operation.split('.').find(|p| p.parse::<u32>().is_ok()) {
        Some("16832") => [16, 8, 32],
        Some("1688") => [16, 8, 8],
        Some("16864") => [16, 8, 64],
        Some("168128") => [16, 8, 128],
        Some("168256") => [16, 8, 256],
        Some("8816") => [8, 8, 16],
        Some("8832") => [8, 8, 32],
        _ => [16, 8, 16],
    };
    let kind = match name {
        "HMMA" => "f16",
        "BMMA" => "b1",
        _ if has("S4") || has("U4") => "s4",
        _ => "s8",
    };
    (kind, 2.0 * f64::from(m * n * k))
}

/// Number after the last of `marks` in `text`, hexadecimal.
fn hexadecimal(text: &str, mark: &str) -> Option<u64> {
    let rest = &text[text.find(mark)? + mark.len()..];
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    u64::from_str_radix(&rest[..end], 16).ok()
}

/// Facts about an operation's name and operands that an estimate needs.
fn named(text: &str) -> String {
    let operation = text.split([' ', ',']).next().unwrap_or_default();
    let name = base(operation);
    if is_matrix(operation) {
        let group = if text.contains("gsb0") { ":group" } else { "" };
        return format!("{operation}{group}");
    }
    if name == "DEPBAR" {
        return format!("DEPBAR:{}", hexadecimal(text, "SB0, 0x").unwrap_or(0));
    }
    if name == "WARPGROUP" {
        return match operation.contains("DEPBAR") {
            true => format!("WARPGROUP:{}", hexadecimal(text, "gsb0, 0x").unwrap_or(0)),
            false => name.to_owned(),
        };
    }
    if matches!(name, "LDS" | "STS" | "LDSM" | "STSM" | "LDG" | "STG")
        && operation.split('.').any(|p| p == "128" || p == "4")
    {
        return format!("{name}.128");
    }
    name.to_owned()
}

/// Whether a branch, without a predicate in front, may not be taken: one that names a predicate among its operands, or by
/// which lanes go different ways.
fn may_fall_through(text: &str) -> bool {
    let is_predicate = |operand: &str| {
        let operand = operand.trim_start_matches(['!', 'U']);
        operand.starts_with('P') && operand[1..].parse::<u8>().is_ok()
    };
    let is_branch = text.split([' ', '.']).next() == Some("BRA");
    is_branch && text.split([' ', ',']).skip(1).any(is_predicate)
        || text.starts_with("BRA.DIV")
        || text.starts_with("BRA.CONV")
}

/// The kernels of a disassembly, by their names; registers, spills and shared memory are ptxas's to say.
pub fn parse(text: &str) -> BTreeMap<String, Code> {
    let mut kernels = BTreeMap::new();
    let mut name = None;
    let mut code = Code::default();
    let mut names: HashMap<String, u16> = HashMap::new();
    let mut labels: HashMap<&str, u32> = HashMap::new();
    let mut branches: Vec<(usize, &str)> = Vec::new();
    let mut line = 0;
    let mut finish = |name: Option<&str>,
                      code: &mut Code,
                      labels: &mut HashMap<&str, u32>,
                      branches: &mut Vec<(usize, &str)>| {
        for (at, label) in branches.drain(..) {
            code.instructions[at].target = labels.get(label).copied();
        }
        labels.clear();
        let code = std::mem::take(code);
        if let Some(name) = name {
            kernels.insert(name.to_owned(), code);
        }
    };
    for row in text.lines() {
        if let Some(label) = row.strip_prefix(".text.").and_then(|r| r.strip_suffix(':')) {
            finish(name, &mut code, &mut labels, &mut branches);
            name = Some(label);
            names.clear();
            line = 0;
        } else if row.starts_with(".section") || row.trim_start().starts_with(".section\t") {
            continue;
        } else if let Some(label) = row.strip_prefix(".L_") {
            let label = label.trim_end().trim_end_matches(':');
            labels.insert(label, code.instructions.len() as u32);
        } else if row.contains("//## File \".nv_debug_ptx_txt") {
            let number = row.rsplit("line ").next().and_then(|n| n.split_whitespace().next());
            line = number.and_then(|n| n.parse().ok()).unwrap_or(line);
        } else if let Some((body, word)) = row.rsplit_once("/* 0x") {
            let Ok(word) = u64::from_str_radix(word.trim_end_matches(" */"), 16) else { continue };
            if body.trim().is_empty() {
                // The second word of the instruction before.
                if let Some(last) = code.instructions.last_mut() {
                    let control = word >> 41;
                    last.stall = (control & 15) as u8;
                    last.writes = (control >> 5 & 7) as u8;
                    last.reads = (control >> 8 & 7) as u8;
                    last.waits = (control >> 11 & 63) as u8;
                }
                continue;
            }
            let Some((_, text)) = body.split_once("*/") else { continue };
            let text = text.trim().trim_end_matches(';').trim();
            let guard = text.strip_prefix('@').and_then(|rest| rest.split_once(' '));
            let (predicate, text) = guard.map_or((None, text), |(p, t)| (Some(p), t.trim()));
            let operation = named(text);
            let next = names.len() as u16;
            let index = *names.entry(operation).or_insert_with_key(|operation| {
                code.operations.push(operation.clone());
                next
            });
            if let Some((_, rest)) = text.split_once("`(.L_") {
                let label = rest.split(')').next().unwrap_or_default();
                branches.push((code.instructions.len(), label));
            }
            code.instructions.push(Instruction {
                operation: index,
                line,
                stall: 1,
                writes: NONE,
                reads: NONE,
                waits: 0,
                conditional: predicate.is_some_and(|p| p != "PT") || may_fall_through(text),
                target: None,
            });
        }
    }
    finish(name, &mut code, &mut labels, &mut branches);
    kernels
}

/// Basic blocks of a kernel and the edges between them.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// First instruction and end of each.
    pub ranges: Vec<(usize, usize)>,
    /// Edges from block to block; none: the end of the kernel.
    pub edges: Vec<(usize, Option<usize>)>,
    /// Block of each instruction.
    pub of: Vec<usize>,
}

impl Code {
    /// Operation of an instruction.
    pub fn operation(&self, instruction: &Instruction) -> &str {
        &self.operations[usize::from(instruction.operation)]
    }

    /// Whether any instruction is such an operation.
    pub fn has(&self, name: &str) -> bool {
        self.operations.iter().any(|operation| base(operation) == name)
    }

    /// Basic blocks.
    pub fn blocks(&self) -> Blocks {
        let ends = |name: &str| {
            matches!(base(name), "BRA" | "EXIT" | "BRX" | "RET" | "BRXU" | "JMP" | "BREAK")
        };
        let count = self.instructions.len();
        let mut starts = BTreeSet::from([0]);
        for (at, instruction) in self.instructions.iter().enumerate() {
            starts.extend(instruction.target.map(|target| target as usize));
            if ends(self.operation(instruction)) {
                starts.insert(at + 1);
            }
        }
        let starts: Vec<usize> = starts.into_iter().filter(|&s| s < count).collect();
        let mut of = vec![0; count];
        let end = |block: usize| starts.get(block + 1).copied().unwrap_or(count);
        let ranges: Vec<_> = (0..starts.len()).map(|b| (starts[b], end(b))).collect();
        for (block, &(first, end)) in ranges.iter().enumerate() {
            of[first..end].fill(block);
        }
        let mut edges = BTreeSet::new();
        for (block, &(_, end)) in ranges.iter().enumerate() {
            let last = &self.instructions[end - 1];
            let fall = (block + 1 < ranges.len()).then_some(block + 1);
            let target = last.target.and_then(|target| of.get(target as usize).copied());
            let (jumps, falls) = match base(self.operation(last)) {
                "BRA" => (target.map(Some), last.conditional),
                "EXIT" => (Some(None), last.conditional),
                "RET" | "JMP" => (Some(None), false),
                // A table of targets, below.
                "BRX" | "BRXU" => (None, false),
                _ => (None, true),
            };
            edges.extend(jumps.map(|next| (block, next)));
            if falls && fall.is_some() {
                edges.insert((block, fall));
            }
        }
        // Blocks that no other edge reaches are reached through tables of targets.
        let led: BTreeSet<_> = edges.iter().filter_map(|&(_, to)| to).collect();
        for (block, &(_, end)) in ranges.iter().enumerate() {
            if base(self.operation(&self.instructions[end - 1])).starts_with("BRX") {
                let free = (1..ranges.len()).filter(|next| !led.contains(next));
                edges.extend(free.map(|next| (block, Some(next))));
            }
        }
        Blocks { ranges, edges: edges.into_iter().collect(), of }
    }
}

/// The kernels of an architecture that are shipped, if any.
pub fn shipped(arch: &str) -> Option<&'static BTreeMap<String, Code>> {
    type Digest = (&'static str, &'static [u8], OnceLock<BTreeMap<String, Code>>);
    // ptxas makes the same digest for sm_86 and sm_89.
    static DIGESTS: [Digest; 4] = [
        ("sm_80", include_bytes!("../sass/sm_80"), OnceLock::new()),
        ("sm_86", include_bytes!("../sass/sm_86"), OnceLock::new()),
        ("sm_89", include_bytes!("../sass/sm_86"), OnceLock::new()),
        ("sm_90a", include_bytes!("../sass/sm_90a"), OnceLock::new()),
    ];
    let (_, packed, kernels) = DIGESTS.iter().find(|(name, ..)| *name == arch)?;
    Some(kernels.get_or_init(|| undigest(packed).unwrap_or_default()))
}

/// Numbers as bytes, seven bits each, lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = take_number(bytes)? as usize;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// Difference as a number that is small for small differences of either sign.
fn zigzag(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Digest of kernels.
pub fn digest(kernels: &BTreeMap<String, Code>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, kernels.len() as u64);
    for (name, code) in kernels {
        put_text(&mut bytes, name);
        for number in [code.registers, code.spilled, code.shared] {
            put(&mut bytes, number.into());
        }
        put(&mut bytes, code.operations.len() as u64);
        code.operations.iter().for_each(|operation| put_text(&mut bytes, operation));
        put(&mut bytes, code.instructions.len() as u64);
        // Column by column: alike beside alike.
        code.instructions.iter().for_each(|i| put(&mut bytes, i.operation.into()));
        bytes.extend(code.instructions.iter().map(|i| i.stall | u8::from(i.conditional) << 4));
        bytes.extend(code.instructions.iter().map(|i| i.writes | i.reads << 3));
        bytes.extend(code.instructions.iter().map(|i| i.waits));
        let mut before = 0;
        for i in &code.instructions {
            put(&mut bytes, zigzag(i64::from(i.line) - before));
            before = i64::from(i.line);
        }
        let targets: Vec<_> = code.instructions.iter().enumerate().collect();
        let targets: Vec<_> = targets.iter().filter_map(|(at, i)| Some((at, i.target?))).collect();
        put(&mut bytes, targets.len() as u64);
        for (at, target) in targets {
            put(&mut bytes, *at as u64);
            put(&mut bytes, target.into());
        }
    }
    compress_to_vec(&bytes, 10)
}

/// The kernels of a digest; none if it is none.
pub fn undigest(packed: &[u8]) -> Option<BTreeMap<String, Code>> {
    let bytes = decompress_to_vec(packed).ok()?;
    let bytes = &mut bytes.as_slice();
    let mut kernels = BTreeMap::new();
    for _ in 0..take_number(bytes)? {
        let name = take_text(bytes)?;
        let mut number = || take_number(bytes).map(|n| n as u32);
        let (registers, spilled, shared) = (number()?, number()?, number()?);
        let operations =
            (0..take_number(bytes)?).map(|_| take_text(bytes)).collect::<Option<Vec<_>>>()?;
        let count = take_number(bytes)? as usize;
        let names = (0..count).map(|_| take_number(bytes)).collect::<Option<Vec<_>>>()?;
        let (columns, rest) = bytes.split_at_checked(3 * count)?;
        *bytes = rest;
        let mut line = 0;
        let mut instructions = Vec::with_capacity(count);
        for (at, name) in names.into_iter().enumerate() {
            line += unzigzag(take_number(bytes)?);
            let [stall, boards, waits] = [0, 1, 2].map(|column| columns[column * count + at]);
            instructions.push(Instruction {
                operation: u16::try_from(name)
                    .ok()
                    .filter(|&n| usize::from(n) < operations.len())?,
                line: line as u32,
                stall: stall & 15,
                conditional: stall & 16 != 0,
                writes: boards & 7,
                reads: boards >> 3,
                waits,
                target: None,
            });
        }
        for _ in 0..take_number(bytes)? {
            let at = take_number(bytes)? as usize;
            instructions.get_mut(at)?.target = Some(take_number(bytes)? as u32);
        }
        kernels.insert(name, Code { registers, spilled, shared, operations, instructions });
    }
    Some(kernels)
}

/// A CUDA tool: the one that a variable of its name in capitals names, else one of the path.
fn tool(name: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(name.to_uppercase()) {
        return Some(path.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Output of a tool, both streams.
fn run(tool: &Path, arguments: &[&str]) -> Result<String> {
    let fault = |fault: String| Error::Tool { tool: tool.display().to_string(), fault };
    let output = Command::new(tool).args(arguments).output().map_err(|e| fault(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(text) } else { Err(fault(text.trim().to_owned())) }
}

/// Machine code of a PTX module's kernels, by ptxas and nvdisasm (`PTXAS`, `NVDISASM`, or the path);
/// nothing where either is not found.
pub fn assemble(ptx: &str, arch: &str) -> Result<Option<BTreeMap<String, Code>>> {
    let (Some(ptxas), Some(nvdisasm)) = (tool("ptxas"), tool("nvdisasm")) else {
        return Ok(None);
    };
    let folder = env::temp_dir().join(format!("ptx-model-{}", process::id()));
    let fault = |e: std::io::Error| Error::Tool { tool: "ptxas".to_owned(), fault: e.to_string() };
    fs::create_dir_all(&folder).map_err(fault)?;
    let made = assemble_in(&folder, ptx, arch, &ptxas, &nvdisasm);
    let _ = fs::remove_dir_all(&folder);
    made.map(Some)
}

fn assemble_in(
    folder: &Path,
    ptx: &str,
    arch: &str,
    ptxas: &Path,
    nvdisasm: &Path,
) -> Result<BTreeMap<String, Code>> {
    let (source, cubin) = (folder.join("a.ptx"), folder.join("a.cubin"));
    let fault = |e: std::io::Error| Error::Tool { tool: "ptxas".to_owned(), fault: e.to_string() };
    fs::write(&source, ptx).map_err(fault)?;
    let [source, cubin] = [&source, &cubin].map(|path| path.display().to_string());
    let arch = format!("-arch={arch}");
    let notes = run(ptxas, &["-v", "-lineinfo", "-O3", &arch, &source, "-o", &cubin])?;
    let mut kernels = parse(&run(nvdisasm, &["-gp", "-c", "-hex", &cubin])?);
    let mut code: Option<&mut Code> = None;
    for row in notes.lines() {
        let words: Vec<&str> = row.split([' ', ',']).filter(|w| !w.is_empty()).collect();
        let before = |unit: &[&str]| {
            let at = words.windows(unit.len()).position(|w| w == unit)?;
            words.get(at.checked_sub(1)?)?.parse::<u32>().ok()
        };
        if let Some((_, rest)) = row.split_once("entry function '") {
            code = kernels.get_mut(rest.split('\'').next().unwrap_or_default());
        } else if let Some(code) = code.as_deref_mut() {
            code.registers = before(&["registers"]).unwrap_or(code.registers);
            code.spilled = before(&["bytes", "spill", "stores"]).unwrap_or(code.spilled);
            code.shared = before(&["bytes", "smem"]).unwrap_or(code.shared);
        }
    }
    Ok(kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
.text.k:
\t//## File \".nv_debug_ptx_txt\", line 14
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;   /* 0x00000a00ff017624 */
                                                                            /* 0x000fe400078e00ff */
.L_x_1:
\t//## File \".nv_debug_ptx_txt\", line 16
        /*0010*/                   LDS.128 R4, [R0] ;                       /* 0x0000000000047984 */
                                                                            /* 0x000e620000000c00 */
        /*0020*/               @P0 BRA `(.L_x_1) ;                          /* 0xfffffff000000947 */
                                                                            /* 0x002fea000383ffff */
        /*0030*/                   EXIT ;                                   /* 0x000000000000794d */
                                                                            /* 0x000fea0003800000 */
";

    #[test]
    fn instructions_have_their_lines_control_codes_and_targets() {
        let code = &parse(TEXT)["k"];
        assert_eq!(code.operations, ["IMAD", "LDS.128", "BRA", "EXIT"]);
        let [first, load, branch, exit] = code.instructions[..] else { panic!("{code:?}") };
        assert_eq!((first.line, first.stall, first.writes, first.waits), (14, 2, 7, 0));
        assert_eq!((load.line, load.stall, load.writes, load.reads), (16, 1, 1, 7));
        assert_eq!((branch.waits, branch.conditional, branch.target), (2, true, Some(1)));
        assert_eq!((exit.conditional, exit.target), (false, None));
        let blocks = code.blocks();
        assert_eq!(blocks.ranges, [(0, 1), (1, 3), (3, 4)]);
        let edges = [(0, Some(1)), (1, Some(1)), (1, Some(2)), (2, None)];
        assert_eq!(blocks.edges, edges);
    }

    #[test]
    fn a_digest_gives_back_what_it_was_made_of() {
        let kernels = parse(TEXT);
        assert_eq!(undigest(&digest(&kernels)).unwrap(), kernels);
        assert_eq!(undigest(b"no digest"), None);
    }

    #[test]
    fn every_shipped_chip_has_the_machine_code_of_kernels() {
        for (name, _) in crate::CHIPS {
            let kernels = shipped(&crate::Chip::named(name).unwrap().arch).unwrap();
            let code = &kernels["limits_dp4a"];
            assert!(
                code.registers > 0 && code.has("IDP") && code.blocks().ranges.len() > 1,
                "{name}"
            );
        }
    }

    #[test]
    fn matrix_instructions_have_kinds_and_operations() {
        assert_eq!(matrix("IMMA.16832.S8.S8"), ("s8", 8192.0));
        assert_eq!(matrix("HMMA.16816.F32"), ("f16", 4096.0));
        assert_eq!(matrix("IGMMA.64x128x32.S8.S8:group"), ("wg_s8", 131072.0));
    }
}
