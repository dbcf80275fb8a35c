//! The program under construction: scopes and their names, registers, constants, operands, instructions.

use std::collections::HashMap;

use crate::lanes::{Class, Reg};
use crate::program;
use crate::program::{Address, Constant, Guard, Inst, NOWHERE, Op, Program, SourceLine, Special};
use crate::syntax::ast::{Instruction, Operand, Space, Type, Unit, Variable};

/// Result of a lowering step; the error is a message about the instruction at hand.
pub type Lowered<T = ()> = Result<T, String>;

pub fn mismatch<T>() -> Lowered<T> {
    Err("operands do not fit".into())
}

/// The one operand of an instruction that takes a number of groups.
pub fn count(operands: &[Operand]) -> Lowered<u32> {
    match operands {
        [Operand::Int(count)] => Ok(*count as u32),
        _ => Err("expected a count".into()),
    }
}

/// Static shared memory, and local memory of a thread, at most, in bytes.
const MAX_FRAME: u64 = 512 * 1024;
/// Place of a variable.
#[derive(Debug, Clone, Copy)]
pub enum VariableAddress {
    /// Address known now, in its space.
    At(Space, u64),
    /// Module variable of global or const space, by index.
    Module(u32),
    /// Start of dynamic shared memory.
    Dynamic,
}

/// Names of one `{ }`.
#[derive(Debug, Default)]
pub struct Scope {
    pub registers: HashMap<String, Reg>,
    /// `%r<100>`: prefix, first slot, count.
    pub families: Vec<(String, Reg, u32)>,
    pub labels: HashMap<String, u32>,
    pub variables: HashMap<String, VariableAddress>,
    pub targets: HashMap<String, Vec<String>>,
}

pub struct Lower<'a> {
    pub unit: &'a Unit,
    pub program: Program,
    pub scopes: Vec<Scope>,
    /// Instruction index of each label.
    pub labels: Vec<u32>,
    /// Shared variables laid out so far.
    pub shared: HashMap<String, u64>,
    pub constants: HashMap<(Class, Constant), Reg>,
    pub source_of: HashMap<(u32, String), u32>,
    /// Functions being expanded: for each, the label of its end.
    pub calls: Vec<u32>,
    /// Hidden registers, made when needed.
    pub carry: Option<Reg>,
    /// Registers of the statement at hand and whether it writes them.
    pub touched: Vec<(Reg, bool)>,
    /// The same for every instruction so far.
    pub all_touched: Vec<Vec<(Reg, bool)>>,
    pub guard: Option<Guard>,
    /// Line of the statement before, for errors about declarations.
    pub line: u32,
    pub source: u32,
    pub counted: bool,
    pub smallest: u32,
    pub smallest_global: u32,
    pub dynamic_align: u32,
}

impl<'a> Lower<'a> {
    pub fn new(unit: &'a Unit) -> Self {
        Self {
            unit,
            program: Program {
                name: String::new(),
                insts: Vec::new(),
                sources: Vec::new(),
                narrow: 0,
                wide: 0,
                predicates: 0,
                constants: Vec::new(),
                params: Vec::new(),
                param_bytes: 0,
                local_bytes: 0,
                shared_bytes: 0,
                dynamic_base: 0,
                maxntid: None,
                reqntid: false,
                cluster: None,
                max_cluster: None,
                explicit_cluster: false,
                min_blocks: 0,
                granule: 4,
                global_granule: 4,
                synchronises: false,
                touches: Vec::new(),
            },
            scopes: Vec::new(),
            labels: Vec::new(),
            shared: HashMap::new(),
            constants: HashMap::new(),
            source_of: HashMap::new(),
            calls: Vec::new(),
            carry: None,
            touched: Vec::new(),
            all_touched: Vec::new(),
            guard: None,
            line: 1,
            source: 0,
            counted: false,
            smallest: 16,
            smallest_global: 16,
            dynamic_align: 1,
        }
    }

    pub fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("statements stand in a scope")
    }

    pub fn allocate(&mut self, ty: Type, count: u32) -> Reg {
        let (class, next) = match ty {
            Type::Pred => (Class::Predicate, &mut self.program.predicates),
            _ if ty.bytes() <= 4 => (Class::Narrow, &mut self.program.narrow),
            _ => (Class::Wide, &mut self.program.wide),
        };
        let slot = *next;
        *next += count;
        Reg { class, slot }
    }

    pub fn declare(&mut self, name: &str, count: Option<u32>, ty: Type) {
        let first = self.allocate(ty, count.unwrap_or(1));
        match count {
            Some(count) => self.scope().families.push((name.to_owned(), first, count)),
            None => {
                self.scope().registers.insert(name.to_owned(), first);
            }
        }
    }

    /// A variable of function scope. `.param` there passes arguments and lives in the local frame.
    pub fn variable(&mut self, variable: &Variable) -> Lowered {
        let place = match variable.space {
            Space::Shared => VariableAddress::At(Space::Shared, self.lay_out_shared(variable)?),
            _ => VariableAddress::At(Space::Local, place(&mut self.program.local_bytes, variable)?),
        };
        self.scope().variables.insert(variable.name.clone(), place);
        Ok(())
    }

    pub fn lay_out_shared(&mut self, variable: &Variable) -> Lowered<u64> {
        place(&mut self.program.shared_bytes, variable)
    }

    pub fn find_register(&self, name: &str) -> Option<Reg> {
        for scope in self.scopes.iter().rev() {
            if let Some(&reg) = scope.registers.get(name) {
                return Some(reg);
            }
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            if stem.len() < name.len() {
                for (prefix, first, count) in &scope.families {
                    if prefix == stem
                        && let Ok(index) = name[stem.len()..].parse::<u32>()
                        && index < *count
                    {
                        return Some(Reg { slot: first.slot + index, ..*first });
                    }
                }
            }
        }
        None
    }

    pub fn find_variable(&mut self, name: &str) -> Lowered<VariableAddress> {
        for scope in self.scopes.iter().rev() {
            if let Some(&place) = scope.variables.get(name) {
                return Ok(place);
            }
        }
        let unit = self.unit;
        let found = unit.variables.iter().enumerate().find(|(_, v)| v.name == name);
        let Some((index, variable)) = found else {
            return Err(format!("no register or variable `{name}` in scope"));
        };
        Ok(match variable.space {
            Space::Shared if variable.count == 0 => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                VariableAddress::Dynamic
            }
            Space::Shared => match self.shared.get(name) {
                Some(&at) => VariableAddress::At(Space::Shared, at),
                None => {
                    let at = self.lay_out_shared(variable)?;
                    self.shared.insert(name.to_owned(), at);
                    VariableAddress::At(Space::Shared, at)
                }
            },
            _ => VariableAddress::Module(index as u32),
        })
    }

    pub fn constant(&mut self, class: Class, value: Constant) -> Reg {
        if let Some(&reg) = self.constants.get(&(class, value)) {
            return reg;
        }
        let ty = match class {
            Class::Predicate => Type::Pred,
            Class::Narrow => Type::B32,
            Class::Wide => Type::B64,
        };
        let reg = self.allocate(ty, 1);
        self.constants.insert((class, value), reg);
        self.program.constants.push((reg, value));
        reg
    }

    pub fn begin(&mut self, inst: &Instruction) {
        self.line = inst.line;
        let key = (inst.line, inst.text.clone());
        let next = self.program.sources.len() as u32;
        self.source = *self.source_of.entry(key).or_insert(next);
        if self.source == next {
            let mut opcode = inst.opcode.clone();
            for modifier in &inst.modifiers {
                opcode.push('.');
                opcode.push_str(modifier);
            }
            self.program.sources.push(SourceLine {
                line: inst.line,
                origin: self.origin(inst),
                text: inst.text.as_str().into(),
                opcode: opcode.into(),
                class: program::Class::Other,
                tensor_operations: 0,
            });
        }
        self.counted = true;
        self.guard = None;
        self.touched.clear();
    }

    /// `file:line` of an instruction, where the text tells.
    fn origin(&self, inst: &Instruction) -> Option<String> {
        let (file, line) = inst.location?;
        let (_, name) = self.unit.files.iter().find(|(number, _)| *number == file)?;
        Some(format!("{name}:{line}"))
    }

    pub fn emit(&mut self, op: Op) {
        self.program.insts.push(Inst {
            op,
            guard: self.guard,
            source: self.source,
            counted: std::mem::replace(&mut self.counted, false),
            touches: NOWHERE,
        });
        self.all_touched.push(self.touched.clone());
    }

    pub fn class(&mut self, class: program::Class) {
        self.program.sources[self.source as usize].class = class;
    }

    pub fn register(&self, name: &str) -> Lowered<Reg> {
        self.find_register(name).ok_or_else(|| format!("no register `{name}` in scope"))
    }

    /// The register class that operands of a type live in.
    pub fn class_of(ty: Type) -> Lowered<Class> {
        Ok(match ty {
            Type::Pred => Class::Predicate,
            Type::B128 => return Err("128-bit registers are not modelled".into()),
            _ if ty.bytes() <= 4 => Class::Narrow,
            _ => Class::Wide,
        })
    }

    /// Slot of a source operand of type `ty`; literals and names of variables become constants.
    pub fn source(&mut self, operand: &Operand, ty: Type) -> Lowered<u32> {
        let class = Self::class_of(ty)?;
        let reg = self.source_reg(operand, ty)?;
        if reg.class != class {
            return Err(format!("{operand:?} does not fit the type {ty:?}"));
        }
        Ok(reg.slot)
    }

    /// As [`Self::source`], whatever the register's class is.
    pub fn source_reg(&mut self, operand: &Operand, ty: Type) -> Lowered<Reg> {
        let class = Self::class_of(ty)?;
        let value = match operand {
            Operand::Name(name) => {
                if let Some(reg) = self.find_register(name) {
                    self.touched.push((reg, false));
                    return Ok(reg);
                }
                if let Some(value) = special(name) {
                    return Ok(self.constant(class, value));
                }
                return self.address_constant(name, 0, class);
            }
            Operand::Sum(name, offset) => return self.address_constant(name, *offset, class),
            Operand::Not(name) => {
                let reg = self.register(name)?;
                if reg.class != Class::Predicate {
                    return Err(format!("`{name}` is not a predicate"));
                }
                self.touched.push((reg, false));
                let d = self.allocate(Type::Pred, 1);
                let not = crate::lanes::alu!(|a: bool| -> bool { !a });
                let guard = self.guard.take();
                let counted = std::mem::replace(&mut self.counted, false);
                self.emit(Op::Alu(not, crate::lanes::Slots { d: d.slot, s: [reg.slot, 0, 0, 0] }));
                self.guard = guard;
                self.counted = counted;
                return Ok(d);
            }
            &Operand::Int(v) => match ty {
                Type::F32 => u64::from((v as f32).to_bits()),
                Type::F64 => (v as f64).to_bits(),
                _ if class == Class::Predicate => u64::from(v != 0),
                _ if class == Class::Narrow => u64::from(v as u32),
                _ => v as u64,
            },
            &Operand::F32(bits) => match ty {
                Type::F64 => f64::from(f32::from_bits(bits)).to_bits(),
                _ => u64::from(bits),
            },
            &Operand::F64(bits) => match ty {
                Type::F32 => u64::from((f64::from_bits(bits) as f32).to_bits()),
                _ => bits,
            },
            _ => return Err(format!("{operand:?} is not a source operand")),
        };
        Ok(self.constant(class, Constant::Bits(value)))
    }

    pub fn address_constant(&mut self, name: &str, offset: i64, class: Class) -> Lowered<Reg> {
        let place = self.find_variable(name)?;
        let value = match place {
            VariableAddress::At(_, at) => Constant::Bits(at.wrapping_add_signed(offset)),
            VariableAddress::Module(index) => Constant::Variable { index, offset },
            VariableAddress::Dynamic => Constant::Dynamic { offset },
        };
        Ok(self.constant(class, value))
    }

    /// Slot of a destination of type `ty`; `_` gets a register that is never read.
    pub fn destination(&mut self, operand: &Operand, ty: Type) -> Lowered<u32> {
        let class = Self::class_of(ty)?;
        let reg = self.destination_reg(operand, ty)?;
        if reg.class != class {
            return Err(format!("{operand:?} does not fit the type {ty:?}"));
        }
        Ok(reg.slot)
    }

    pub fn destination_reg(&mut self, operand: &Operand, ty: Type) -> Lowered<Reg> {
        let Operand::Name(name) = operand else {
            return Err(format!("{operand:?} is not a register"));
        };
        if name == "_" {
            return Ok(self.allocate(ty, 1));
        }
        let reg = self.register(name)?;
        self.touched.push((reg, true));
        Ok(reg)
    }

    pub fn address(&mut self, operand: &Operand, space: Space) -> Lowered<Address> {
        let (base, offset) = match operand {
            Operand::Address { base, offset } => (base.as_deref(), *offset),
            Operand::Tensor { map, offset, .. } => (Some(map.as_str()), *offset),
            _ => return Err(format!("{operand:?} is not an address")),
        };
        let Some(name) = base else {
            return Ok(Address { space, base: None, offset });
        };
        if let Some(reg) = self.find_register(name) {
            if reg.class == Class::Predicate {
                return Err(format!("`{name}` cannot hold an address"));
            }
            self.touched.push((reg, false));
            return Ok(Address { space, base: Some(reg), offset });
        }
        let place = self.find_variable(name)?;
        match place {
            // `.param` variables of functions live in the local frame.
            VariableAddress::At(actual, at) => Ok(Address {
                space: if space == Space::Param { actual } else { space },
                base: None,
                offset: (at as i64).wrapping_add(offset),
            }),
            VariableAddress::Module(index) => {
                let reg = self.constant(Class::Wide, Constant::Variable { index, offset });
                Ok(Address { space, base: Some(reg), offset: 0 })
            }
            VariableAddress::Dynamic => {
                let reg = self.constant(Class::Wide, Constant::Dynamic { offset });
                Ok(Address { space, base: Some(reg), offset: 0 })
            }
        }
    }

    /// Notes a shared-memory access of `bytes`: the checks keep one record per smallest access.
    pub fn shared_access(&mut self, space: Space, bytes: u32) {
        if matches!(space, Space::Shared | Space::Generic) {
            self.smallest = self.smallest.min(bytes.max(1));
        }
    }

    pub fn vector(operand: &Operand) -> &[Operand] {
        match operand {
            Operand::Vector(items) => items,
            single => std::slice::from_ref(single),
        }
    }
}

/// Appends a variable to a memory of `bytes` bytes, and returns its offset.
fn place(bytes: &mut u32, variable: &Variable) -> Lowered<u64> {
    let at = bytes.next_multiple_of(variable.align);
    let end = u64::from(at) + variable.bytes();
    if end > MAX_FRAME {
        return Err(format!("{}: {end} bytes, at most {MAX_FRAME} fit", variable.name));
    }
    *bytes = end as u32;
    Ok(u64::from(at))
}

/// A special register that is constant for the life of a thread.
fn special(name: &str) -> Option<Constant> {
    let (stem, axis) = match name.rsplit_once('.') {
        Some((stem, "x")) => (stem, 0),
        Some((stem, "y")) => (stem, 1),
        Some((stem, "z")) => (stem, 2),
        Some(_) => return None,
        None => (name, 3),
    };
    let value = match (stem, axis) {
        ("%tid", 0..3) => Special::Tid(axis),
        ("%ntid", 0..3) => Special::Ntid(axis),
        ("%ctaid", 0..3) => Special::Ctaid(axis),
        ("%nctaid", 0..3) => Special::Nctaid(axis),
        ("%laneid", 3) => Special::Laneid,
        ("%warpid", 3) => Special::Warpid,
        ("%nwarpid", 3) => Special::Nwarpid,
        ("%lanemask_eq", 3) => Special::LanemaskEq,
        ("%lanemask_lt", 3) => Special::LanemaskLt,
        ("%lanemask_le", 3) => Special::LanemaskLe,
        ("%lanemask_gt", 3) => Special::LanemaskGt,
        ("%lanemask_ge", 3) => Special::LanemaskGe,
        ("%dynamic_smem_size", 3) => Special::DynamicShared,
        ("%total_smem_size", 3) => Special::TotalShared,
        ("%clusterid", 0..3) => Special::ClusterId(axis),
        ("%nclusterid", 0..3) => Special::ClusterCount(axis),
        ("%cluster_ctaid", 0..3) => Special::ClusterPlace(axis),
        ("%cluster_nctaid", 0..3) => Special::ClusterExtent(axis),
        ("%cluster_ctarank", 3) => Special::ClusterRank,
        ("%cluster_nctarank", 3) => Special::ClusterSize,
        ("%is_explicit_cluster", 3) => Special::ExplicitCluster,
        // One multiprocessor runs the grid.
        ("%smid" | "%gridid", 3) => return Some(Constant::Bits(0)),
        ("%nsmid", 3) => return Some(Constant::Bits(1)),
        ("WARP_SZ", 3) => return Some(Constant::Bits(32)),
        _ => return None,
    };
    Some(Constant::Special(value))
}
