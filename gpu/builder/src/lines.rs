//! Lines of Rust that lines of a kernel's PTX were compiled from.
//!
//! LLVM's `.loc` names only the innermost source line, for most instructions a line of a wrapper in `isa`. PTX 7.2 has
//! `inlined_at` for the lines that call it, but LLVM 22 does not write it; its DWARF has the calls.

use std::{collections::HashMap, fmt, fs, path::Path};

use gimli::{
    AttributeValue::{Addr, FileIndex},
    EndianSlice, LittleEndian, constants,
};

use crate::{
    Result,
    abi::Entry,
    compile::{self, compile_target},
    finish::{finish, without_comments},
    sources::Sources,
};

/// Bytes of a section of debug information.
type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// A line of a source file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    /// Number of the file in the PTX.
    file: u64,
    line: u64,
}

/// A call that was inlined: the instructions that came of it, by number, and where it stands.
#[derive(Debug)]
struct Call {
    first: u64,
    end: u64,
    place: Place,
    /// Number of the inlined call within whose code it stands.
    within: Option<usize>,
}

/// A kernel's PTX with the lines that it was compiled from.
#[derive(Debug, Default)]
pub struct Lines {
    /// Module without debug information, as LLVM would have written it.
    text: String,
    /// Innermost place of each line of the kernel's body.
    places: Vec<Option<Place>>,
    calls: Vec<Call>,
    files: HashMap<u64, String>,
}

/// Compiles a kernel with lines: the same instructions as without.
///
/// # Errors
/// Sources of core that are missing; what the compiler says; debug information that cannot be read.
pub fn compile(
    package: &Path,
    builds: &Path,
    entry: &'static Entry,
    sources: &Sources,
) -> Result<Lines> {
    let core = compile::core_sources(package)?;
    let build = builds.join("lines").join(entry.target.name());
    fs::create_dir_all(&build).map_err(|error| format!("{}: {error}", build.display()))?;
    let lock = fs::File::create(build.join("lock")).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.map_err(|error| format!("{}/lock: {error}", build.display()))?;
    let cfgs = compile::cfgs(&[entry], sources);
    let ptx = compile_target(package, &core, &build, entry.target, &cfgs, "line-tables-only")?;
    Lines::read(&ptx)
}

impl Lines {
    /// Reads a module that was compiled with `-Cdebuginfo=line-tables-only`: `.loc` before instructions, labels, and
    /// DWARF as `.b8`, `.b32` and `.b64` in sections behind the kernel. Addresses are numbers of the body's lines.
    fn read(ptx: &str) -> Result<Self> {
        let mut lines = Self::default();
        let (mut sections, mut section) = (HashMap::<&str, Vec<&str>>::new(), "");
        let (mut labels, mut place, mut is_body) = (HashMap::new(), None, false);
        let ptx = without_comments(ptx);
        for line in ptx.lines().filter(|line| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let label = line.strip_suffix(':').filter(|label| !label.starts_with("$L__BB"));
            match words.next().unwrap_or_default() {
                ".loc" => {
                    let mut number = || words.next().and_then(|number| number.parse().ok());
                    place = number().zip(number()).map(|(file, line)| Place { file, line });
                }
                ".file" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    let name = line.split('"').nth(1);
                    lines.files.extend(number.zip(name.map(str::to_owned)));
                }
                ".section" => section = words.next().unwrap_or_default(),
                _ if !section.is_empty() && label.is_none() => {
                    sections.entry(section).or_default().push(line);
                }
                _ if label.is_some() => {
                    labels.extend(label.map(|label| (label, lines.places.len() as i64)));
                }
                _ => {
                    is_body &= line != "}";
                    if is_body {
                        lines.places.push(place);
                    }
                    is_body |= line == "{";
                    lines.text += line.strip_suffix(", debug").unwrap_or(line);
                    lines.text.push('\n');
                }
            }
        }
        let bytes: HashMap<&str, Vec<u8>> =
            sections.iter().map(|(name, section)| (*name, assembled(section, &labels))).collect();
        let section = |id: gimli::SectionId| {
            let bytes = bytes.get(id.name()).map_or(&[][..], Vec::as_slice);
            Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).map_err(unread)?;
        lines.calls = calls(&dwarf).map_err(unread)?;
        Ok(lines)
    }

    /// Places in the kernel's own sources of a line of `ptx`, which this was shipped as: the innermost first, and from it
    /// outwards those that called it.
    ///
    /// # Errors
    /// `ptx` is of other sources.
    pub fn places(
        &self,
        package: &Path,
        entry: &'static Entry,
        ptx: &str,
        line: usize,
    ) -> Result<Vec<String>> {
        let finished = finish(&self.text, entry.target, &[entry])?;
        if finished[entry.name] != ptx {
            return Err(format!(
                "{}: the sources are others than this PTX was compiled from",
                entry.name
            ));
        }
        let body = 1 + ptx.lines().position(|line| line == "{").unwrap_or_default();
        let Some(number) = line.checked_sub(body + 1).filter(|&number| number < self.places.len())
        else {
            return Ok(Vec::new());
        };
        let around = |call: &Call| (call.first..call.end).contains(&(number as u64));
        let all = 0..self.calls.len();
        // The range of a call may have instructions of others: the shortest range is the likeliest.
        let mut call = all
            .filter(|&call| around(&self.calls[call]))
            .min_by_key(|&call| self.calls[call].end - self.calls[call].first);
        let mut found: Vec<Place> = self.places[number].into_iter().collect();
        while let Some(Call { place, within, .. }) = call.map(|call| &self.calls[call]) {
            found.push(*place);
            call = *within;
        }
        let mut names: Vec<String> =
            found.iter().filter_map(|place| self.name(package, place)).collect();
        names.dedup();
        // The last is the kernel's entry.
        names.truncate(names.len().saturating_sub(1).max(1));
        Ok(names)
    }

    /// `gpu/src/FILE:LINE` of a place in a kernel: wrappers of instructions, which all kernels share, and `core` are none.
    fn name(&self, package: &Path, place: &Place) -> Option<String> {
        let path =
            Path::new(self.files.get(&place.file)?).strip_prefix(package.join("src")).ok()?;
        let is_own = !path.starts_with("isa") && place.line > 0;
        is_own.then(|| format!("gpu/src/{}:{}", path.display(), place.line))
    }
}

fn unread(error: impl fmt::Display) -> String {
    format!("debug information of a kernel: {error}")
}

/// Bytes that directives of data stand for; names of sections are their beginnings.
fn assembled(section: &[&str], labels: &HashMap<&str, i64>) -> Vec<u8> {
    let value = |text: &str| -> i64 {
        let one = |text: &str| text.parse().ok().or_else(|| labels.get(text).copied()).unwrap_or(0);
        match text.split_once(['-', '+']) {
            Some((label, other)) if text.starts_with('$') && text.contains('-') => {
                one(label) - one(other)
            }
            Some((label, offset)) if !label.is_empty() => one(label) + one(offset),
            _ => one(text),
        }
    };
    let mut bytes = Vec::new();
    for line in section {
        let line = line.trim();
        let directive = [(".b8", 1), (".b16", 2), (".b32", 4), (".b64", 8)];
        let Some((data, size)) =
            directive.iter().find_map(|(name, size)| Some((line.strip_prefix(name)?, *size)))
        else {
            continue;
        };
        for item in data.split(',') {
            bytes.extend_from_slice(&value(item.trim()).to_le_bytes()[..size]);
        }
    }
    bytes
}

/// Calls that were inlined. LLVM gives a call whose instructions stand apart one range from the first to the last.
fn calls(dwarf: &gimli::Dwarf<Bytes<'_>>) -> gimli::Result<Vec<Call>> {
    let mut calls = Vec::new();
    let mut units = dwarf.units();
    while let Some(unit) = units.next()? {
        let abbreviations = dwarf.abbreviations(&unit)?;
        let mut entries = unit.entries(&abbreviations);
        // Depth of each call around the present entry, and its number.
        let mut around = Vec::<(isize, usize)>::new();
        while let Some(entry) = entries.next_dfs()? {
            around.retain(|&(depth, _)| depth < entry.depth());
            if entry.tag != constants::DW_TAG_inlined_subroutine {
                continue;
            }
            let number = |name| match entry.attr_value(name)? {
                Addr(number) | FileIndex(number) => Some(number),
                other => other.udata_value(),
            };
            let range = number(constants::DW_AT_low_pc).zip(number(constants::DW_AT_high_pc));
            let place = number(constants::DW_AT_call_file).zip(number(constants::DW_AT_call_line));
            if let Some(((first, end), (file, line))) = range.zip(place) {
                let within = around.last().map(|&(_, call)| call);
                around.push((entry.depth(), calls.len()));
                calls.push(Call { first, end, place: Place { file, line }, within });
            }
        }
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ENTRIES;

    /// A kernel as LLVM writes it with lines: three calls within each other, the outer two in `a.rs`, the inner in `b.rs`.
    const PTX: &str = "\
.version 7.1
.target sm_80, debug
.address_size 64
.visible .entry KERNEL(
\t.param .align 8 .b8 KERNEL_param_0[8]
)
{
\t.reg .b32 \t%r<3>;
$L__func_begin0:
\t.loc\t1 68 0
$L__tmp0:
\t.loc\t1 20 13
\t// begin inline asm
\tmov.u32 %r1, %tid.x;
\t// end inline asm
$L__tmp1:
\t.loc\t4 5 9
\tadd.s32 \t%r2, %r1, %r1;
$L__tmp2:
\t.loc\t1 71 10
\tret;
$L__func_end0:
}
\t.file\t1 \"/p/src/isa/mod.rs\"
\t.file\t2 \"/p/src/reorder/a.rs\"
\t.file\t3 \"/p/src/tile/b.rs\"
\t.file\t4 \"/core/src/num.rs\"
\t.section\t.debug_abbrev
\t{
.b8 1,17,1,0,0
.b8 2,29,1,17,1,18,1,88,11,89,5,0,0
.b8 0
\t}
\t.section\t.debug_info
\t{
.b32 72
.b8 2
.b8 0
.b32 .debug_abbrev
.b8 8
.b8 1
.b8 2
.b64 $L__func_begin0
.b64 $L__tmp2+1
.b8 2,144,1
.b8 2
.b64 $L__tmp0
.b64 $L__tmp2
.b8 2,44,1
.b8 2
.b64 $L__tmp1
.b64 $L__tmp2
.b8 3,7,0
.b8 0,0,0,0
\t}
\t.section\t.debug_macinfo\t{\t}
";

    #[test]
    fn lines_of_ptx_have_the_lines_of_kernels_and_their_callers() {
        let entry = &ENTRIES[0];
        let text = PTX.replace("KERNEL", entry.name);
        let lines = Lines::read(&text).unwrap();
        let ptx = &finish(&lines.text, entry.target, &[entry]).unwrap()[entry.name];
        assert!(!ptx.contains("debug") && !ptx.contains("$L__tmp"), "{ptx}");
        let package = Path::new("/p");
        let places = |instruction: &str| {
            let line = 1 + ptx.lines().position(|line| line.contains(instruction)).unwrap();
            lines.places(package, entry, ptx, line).unwrap()
        };
        assert_eq!(places("mov.u32"), ["gpu/src/reorder/a.rs:300"]);
        assert_eq!(places("add.s32"), ["gpu/src/tile/b.rs:7", "gpu/src/reorder/a.rs:300"]);
        assert_eq!(places("ret;"), ["gpu/src/reorder/a.rs:400"]);
        // Lines before the kernel's body have no source line.
        for line in [0, 1, ptx.lines().count() + 1] {
            assert!(lines.places(package, entry, ptx, line).unwrap().is_empty(), "{line}");
        }
        let other = ptx.replace("add", "sub");
        assert!(lines.places(package, entry, &other, 1).unwrap_err().contains("other"));
    }
}
