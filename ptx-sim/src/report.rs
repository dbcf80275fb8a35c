//! Counts of what a launch did.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::error::brief;
use crate::program::{Class, SourceLine};

/// Counts of one PTX statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Executions by a warp.
    pub warps: u64,
    /// Executions by a lane.
    pub lanes: u64,
    /// Shared-memory wavefronts.
    pub wavefronts: u64,
    /// Wavefronts without bank conflicts.
    pub ideal_wavefronts: u64,
    /// Bytes of global memory that lanes, and copies of whole tiles, read or write.
    pub bytes: u64,
    /// 32-byte sectors of global memory requested.
    pub sectors: u64,
    /// Sectors if the bytes stood side by side.
    pub ideal_sectors: u64,
    /// Branches where the lanes of a warp went different ways.
    pub divergent: u64,
    /// Integer sums of matrix units that went beyond 32 bits and wrapped.
    pub overflows: u64,
}

impl Counts {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.add(other);
        sum
    }

    fn add(&mut self, other: &Self) {
        self.warps += other.warps;
        self.lanes += other.lanes;
        self.wavefronts += other.wavefronts;
        self.ideal_wavefronts += other.ideal_wavefronts;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.divergent += other.divergent;
        self.overflows += other.overflows;
    }
}

/// Counts of one PTX statement, with the statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// The statement as written.
    #[serde(serialize_with = "text")]
    pub text: Arc<str>,
    /// Opcode with its modifiers.
    #[serde(serialize_with = "text")]
    pub opcode: Arc<str>,
    /// Its class.
    pub class: Class,
    /// Its counts.
    pub counts: Counts,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

impl Site {
    /// Order by line, then by text, as one line may have several statements.
    fn place(&self, other: &Self) -> Ordering {
        self.line.cmp(&other.line).then_with(|| match Arc::ptr_eq(&self.text, &other.text) {
            true => Ordering::Equal,
            false => self.text.cmp(&other.text),
        })
    }
}

/// Stores of the same value to the same bytes of global memory by threads that nothing orders: harmless, but named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SameValue {
    /// Line of the store in the PTX text, from 1.
    pub line: u32,
    /// Line of the store that came before.
    pub other_line: u32,
    /// Number of such pairs of stores.
    pub times: u64,
}

/// Counts of one or more launches of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// Entry names, in the order of their first launch.
    pub kernels: Vec<String>,
    /// Launches.
    pub launches: u64,
    /// Blocks run.
    pub blocks: u64,
    /// Multiply-adds times two performed on tensor cores.
    pub tensor_operations: u64,
    /// Every statement that was reached, by line and text.
    pub sites: Vec<Site>,
    /// Unordered stores of the same value to global memory.
    pub same_value: Vec<SameValue>,
    /// Whether global memory was too large for all accesses to be checked for races.
    pub partly_checked: bool,
}

impl Report {
    pub(crate) fn new(
        kernel: &str,
        blocks: u64,
        sources: &[SourceLine],
        counts: &[Counts],
    ) -> Self {
        let mut sites: Vec<Site> = sources
            .iter()
            .zip(counts)
            .filter(|(_, c)| c.warps > 0)
            .map(|(s, c)| Site {
                line: s.line,
                text: s.text.clone(),
                opcode: s.opcode.clone(),
                class: s.class,
                counts: *c,
            })
            .collect();
        sites.sort_by(Site::place);
        let tensor_operations =
            sources.iter().zip(counts).map(|(s, c)| s.tensor_operations * c.warps).sum();
        Self {
            kernels: vec![kernel.to_owned()],
            launches: 1,
            blocks,
            tensor_operations,
            sites,
            same_value: Vec::new(),
            partly_checked: false,
        }
    }

    /// Adds the counts of another report; statements are matched by line and text.
    pub fn merge(&mut self, other: &Self) {
        for kernel in &other.kernels {
            if !self.kernels.contains(kernel) {
                self.kernels.push(kernel.clone());
            }
        }
        self.launches += other.launches;
        self.blocks += other.blocks;
        self.tensor_operations += other.tensor_operations;
        self.partly_checked |= other.partly_checked;
        for note in &other.same_value {
            let pair = |n: &&mut SameValue| (n.line, n.other_line) == (note.line, note.other_line);
            match self.same_value.iter_mut().find(pair) {
                Some(known) => known.times += note.times,
                None => self.same_value.push(*note),
            }
        }
        let mut theirs = other.sites.iter().peekable();
        let mut sites = Vec::with_capacity(self.sites.len().max(other.sites.len()));
        for mut site in self.sites.drain(..) {
            while let Some(earlier) = theirs.next_if(|their| their.place(&site).is_lt()) {
                sites.push(earlier.clone());
            }
            if let Some(same) = theirs.next_if(|their| their.place(&site).is_eq()) {
                site.counts.add(&same.counts);
            }
            sites.push(site);
        }
        sites.extend(theirs.cloned());
        self.sites = sites;
    }

    /// Sum of the counts of all statements.
    pub fn total(&self) -> Counts {
        self.sum(|_| true)
    }

    /// Sum of the counts of the statements of a class.
    pub fn class(&self, class: Class) -> Counts {
        self.sum(|s| s.class == class)
    }

    /// Sum of the counts of the statements that `choose` picks.
    pub fn sum(&self, choose: impl Fn(&Site) -> bool) -> Counts {
        let mut total = Counts::default();
        self.sites.iter().filter(|s| choose(s)).for_each(|s| total.add(&s.counts));
        total
    }

    /// Counts by opcode with modifiers.
    pub fn opcodes(&self) -> BTreeMap<&str, Counts> {
        let mut map = BTreeMap::<_, Counts>::new();
        for site in &self.sites {
            map.entry(&*site.opcode).or_default().add(&site.counts);
        }
        map
    }

    /// Statements with bank conflicts: more wavefronts than ideal.
    pub fn bank_conflicts(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(|s| s.counts.wavefronts > s.counts.ideal_wavefronts)
    }

    /// Statements whose global accesses touch more sectors than their bytes need.
    pub fn uncoalesced(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(|s| s.counts.sectors > s.counts.ideal_sectors)
    }

    /// Statements with integer sums that wrapped.
    pub fn overflows(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(|s| s.counts.overflows > 0)
    }

    /// The report as JSON: the fields of this struct, and the sums by class.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Full<'a> {
            #[serde(flatten)]
            report: &'a Report,
            total: Counts,
            classes: BTreeMap<Class, Counts>,
        }
        let mut classes = BTreeMap::<_, Counts>::new();
        for site in &self.sites {
            classes.entry(site.class).or_default().add(&site.counts);
        }
        let full = Full { report: self, total: self.total(), classes };
        serde_json::to_string_pretty(&full).expect("numbers, strings and unit variants as keys")
    }
}

/// Statements that the text lists of each kind of waste; the JSON has all.
const WORST: usize = 10;

fn factor(done: u64, ideal: u64) -> f64 {
    if ideal == 0 { 1.0 } else { done as f64 / ideal as f64 }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        writeln!(
            f,
            "{}: {} launches, {} blocks, {} warp instructions, {} lane instructions",
            self.kernels.join(", "),
            self.launches,
            self.blocks,
            total.warps,
            total.lanes
        )?;
        if total.warps > 0 {
            let active = total.lanes as f64 / total.warps as f64;
            writeln!(f, "  lanes active on average      {active:.2} of 32")?;
        }
        writeln!(f, "  divergent branches           {}", total.divergent)?;
        writeln!(f, "  tensor operations            {}", self.tensor_operations)?;
        writeln!(
            f,
            "  shared wavefronts            {} (ideal {}, {:.2} x)",
            total.wavefronts,
            total.ideal_wavefronts,
            factor(total.wavefronts, total.ideal_wavefronts)
        )?;
        writeln!(
            f,
            "  global sectors               {} (ideal {}, {:.2} x)",
            total.sectors,
            total.ideal_sectors,
            factor(total.sectors, total.ideal_sectors)
        )?;
        writeln!(f, "  warp instructions by class")?;
        let mut classes = BTreeMap::<_, u64>::new();
        for site in &self.sites {
            *classes.entry(site.class).or_default() += site.counts.warps;
        }
        for (class, warps) in classes {
            writeln!(f, "    {:<26} {warps}", format!("{class:?}"))?;
        }
        let conflicts = self.bank_conflicts().map(|s| {
            let Counts { wavefronts, ideal_wavefronts, .. } = s.counts;
            (s, wavefronts, ideal_wavefronts)
        });
        worst(f, "bank conflicts", "wavefronts", conflicts)?;
        let loose = self.uncoalesced().map(|s| {
            let Counts { sectors, ideal_sectors, .. } = s.counts;
            (s, sectors, ideal_sectors)
        });
        worst(f, "uncoalesced global accesses", "sectors", loose)?;
        for Site { line, text, counts, .. } in self.overflows() {
            writeln!(
                f,
                "  {} sums on line {line} overflowed 32 bits: {}",
                counts.overflows,
                brief(text)
            )?;
        }
        for SameValue { line, other_line, times } in &self.same_value {
            writeln!(
                f,
                "  {times} stores on line {line} race with line {other_line}, and store the same value"
            )?;
        }
        if self.partly_checked {
            writeln!(f, "  global memory is too large: not all accesses were checked for races")?;
        }
        Ok(())
    }
}

/// Writes the statements that waste most, `(statement, done, ideal)` each.
fn worst<'a>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    unit: &str,
    sites: impl Iterator<Item = (&'a Site, u64, u64)>,
) -> fmt::Result {
    let mut sites: Vec<_> = sites.collect();
    if sites.is_empty() {
        return Ok(());
    }
    sites.sort_by_key(|(_, done, ideal)| std::cmp::Reverse(done - ideal));
    writeln!(f, "  {title}")?;
    for (site, done, ideal) in sites.iter().take(WORST) {
        writeln!(
            f,
            "    line {:>5}: {done} {unit}, ideal {ideal} ({:.2} x): {}",
            site.line,
            factor(*done, *ideal),
            brief(&site.text)
        )?;
    }
    if sites.len() > WORST {
        writeln!(f, "    and {} more", sites.len() - WORST)?;
    }
    Ok(())
}
