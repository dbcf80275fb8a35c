//! A PTX module: its entries, decoded, and its variables.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::lower::lower;
use crate::memory::Memory;
use crate::program::{Parameter, Program};
use crate::syntax;
use crate::syntax::ast::{Init, Space, Variable};

/// Bytes of a module variable at most.
const MAX_VARIABLE: u64 = 1 << 32;

/// Gives every module a number.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A parsed and decoded PTX text.
#[derive(Debug)]
pub struct Module {
    id: u64,
    target: String,
    variables: Vec<Variable>,
    programs: Vec<Program>,
    refused: Vec<(String, Error)>,
}

/// Facts of an entry that a launch needs.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its parameters, with their places in the packed buffer.
    pub params: &'a [Parameter],
    /// Bytes of the packed parameter buffer.
    pub param_bytes: u32,
    /// `.maxntid` or `.reqntid`, if given.
    pub maxntid: Option<[u32; 3]>,
    /// Static shared memory in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread in bytes; more than 0 means spills or arrays in memory.
    pub local_bytes: u32,
    /// Decoded instructions.
    pub instructions: usize,
    /// Blocks of a cluster, as `.reqnctapercluster` says; 1 where it says nothing.
    pub cluster: u32,
    /// `.minnctapersm`: blocks of a multiprocessor that the registers must allow; 0: any number.
    pub min_blocks: u32,
}

impl Module {
    /// Parses `ptx` and decodes every entry. An entry with an instruction that is not modelled is
    /// [refused](Self::refused); the others can be launched.
    ///
    /// # Errors
    /// Names the line at which the text is not PTX.
    pub fn parse(ptx: &str) -> Result<Self, Error> {
        let unit = syntax::parse(ptx)?;
        let (mut programs, mut refused) = (Vec::new(), Vec::new());
        for entry in unit.functions.iter().filter(|f| f.is_entry && f.body.is_some()) {
            match lower(&unit, entry) {
                Ok(program) => programs.push(program),
                Err(error) => refused.push((entry.name.clone(), error)),
            }
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { id, target: unit.target, variables: unit.variables, programs, refused })
    }

    /// The `.target` of the text, such as `sm_80`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The entries that can be launched, in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.programs.iter().map(|p| Entry {
            name: &p.name,
            params: &p.params,
            param_bytes: p.param_bytes,
            maxntid: p.maxntid,
            shared_bytes: p.shared_bytes,
            local_bytes: p.local_bytes,
            instructions: p.insts.len(),
            cluster: p.cluster.map_or(1, |shape| shape.iter().product()),
            min_blocks: p.min_blocks,
        })
    }

    /// Entries that cannot be launched, each with the reason: the line, and the instruction or modifier that
    /// is not understood.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.refused.iter().map(|(name, error)| (name.as_str(), error))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The decoded entry of this name.
    pub(crate) fn program(&self, entry: &str) -> Result<&Program, Error> {
        if let Some((_, error)) = self.refused.iter().find(|(name, _)| name == entry) {
            return Err(error.clone());
        }
        self.programs.iter().find(|p| p.name == entry).ok_or_else(|| Error::Launch {
            entry: entry.to_owned(),
            message: "the module has no entry of this name".into(),
        })
    }

    /// Allocates and fills the variables of global and const space; their addresses, by index. Variables
    /// of other spaces have none.
    pub(crate) fn place(&self, memory: &Memory) -> Result<Vec<u64>, Error> {
        if let Some(v) = self.variables.iter().find(|v| v.bytes() > MAX_VARIABLE) {
            return Err(Error::Memory(format!(
                "variable {} of {} bytes: at most {MAX_VARIABLE} fit",
                v.name,
                v.bytes()
            )));
        }
        let addresses: Vec<u64> = self
            .variables
            .iter()
            .map(|v| match v.space {
                Space::Global | Space::Const => memory.alloc(v.bytes()),
                _ => 0,
            })
            .collect();
        for (variable, &address) in self.variables.iter().zip(&addresses) {
            if !matches!(variable.space, Space::Global | Space::Const) {
                continue;
            }
            let width = variable.element.bytes() as usize;
            let mut data = vec![0; variable.bytes() as usize];
            for (slot, init) in data.chunks_exact_mut(width).zip(&variable.init) {
                let value = match init {
                    Init::Bits(bits) => *bits,
                    Init::Symbol(name, offset) => {
                        let index = self.variables.iter().position(|v| v.name == *name);
                        let index = index.ok_or_else(|| {
                            Error::Memory(format!(
                                "the initialiser of {} names {name}, which is no variable",
                                variable.name
                            ))
                        })?;
                        addresses[index].wrapping_add_signed(*offset)
                    }
                };
                slot.copy_from_slice(&value.to_le_bytes()[..width]);
            }
            memory.write(address, &data)?;
        }
        Ok(addresses)
    }
}
