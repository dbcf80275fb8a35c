//! From the syntax tree to a [`Program`]: names become register slots, calls are expanded in place,
//! and every instruction and modifier is either understood or an error.

mod asynchronous;
mod memory;
mod scalar;
mod tensor;
mod warp;
mod words;

use std::collections::{HashMap, HashSet};

use crate::Error;
use crate::cfg;
use crate::lanes::{Class, Reg};
use crate::program::{
    Address, Constant, Guard, Inst, NOWHERE, Op, Parameter, Program, Source, Special,
};
use crate::report;
use crate::syntax::ast::{Function, Instruction, Operand, Space, Statement, Type, Unit, Variable};
use words::Words;

/// What one lowering step can fail with: a message about the instruction at hand.
type Lowered<T = ()> = Result<T, String>;

/// Bytes of the parameters of an entry at most (PTX ISA, from sm_70 on).
const MAX_PARAMS: u64 = 32_764;
/// Static shared memory, and local memory of a thread, at most, in bytes.
const MAX_FRAME: u64 = 512 * 1024;
/// Most instructions of an entry with the functions that it calls, which are expanded in place.
const MAX_INSTRUCTIONS: usize = 1 << 20;
/// Deepest nesting of calls; deeper means recursion, which has no place in a kernel of ours.
const CALL_DEPTH: usize = 32;

/// Decodes entry `entry` of `unit`.
pub fn lower(unit: &Unit, entry: &Function) -> Result<Program, Error> {
    let mut lower = Lower::new(unit);
    lower.entry(entry)?;
    Ok(lower.program)
}

/// Where a variable lives.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Address known now, in its space.
    At(Space, u64),
    /// Module variable of global or const space, by index.
    Module(u32),
    /// Start of dynamic shared memory.
    Dynamic,
}

/// Names of one `{ }`.
#[derive(Debug, Default)]
struct Scope {
    registers: HashMap<String, Reg>,
    /// `%r<100>`: prefix, first slot, count.
    families: Vec<(String, Reg, u32)>,
    labels: HashMap<String, u32>,
    variables: HashMap<String, Place>,
    targets: HashMap<String, Vec<String>>,
}

struct Lower<'a> {
    unit: &'a Unit,
    program: Program,
    scopes: Vec<Scope>,
    /// Instruction index of each label.
    labels: Vec<u32>,
    /// Shared variables laid out so far.
    shared: HashMap<String, u64>,
    constants: HashMap<(Class, Constant), Reg>,
    source_of: HashMap<(u32, String), u32>,
    /// Functions being expanded: for each, the label of its end.
    calls: Vec<u32>,
    /// Hidden registers, made when needed.
    carry: Option<Reg>,
    /// Registers of the statement at hand and whether it writes them.
    touched: Vec<(Reg, bool)>,
    /// The same for every instruction so far.
    all_touched: Vec<Vec<(Reg, bool)>>,
    guard: Option<Guard>,
    /// Line of the statement before, for errors about declarations.
    line: u32,
    source: u32,
    counted: bool,
    smallest: u32,
    dynamic_align: u32,
}

impl<'a> Lower<'a> {
    fn new(unit: &'a Unit) -> Self {
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
                cluster: 1,
                granule: 4,
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
            dynamic_align: 1,
        }
    }

    fn entry(&mut self, entry: &Function) -> Result<(), Error> {
        let body = entry.body.as_ref().ok_or_else(|| Error::Syntax {
            line: entry.line,
            message: format!("entry {} has no body", entry.name),
        })?;
        self.line = entry.line;
        self.program.name.clone_from(&entry.name);
        self.program.maxntid = entry.maxntid;
        self.program.reqntid = entry.reqntid;
        self.program.cluster = entry.cluster;
        let mut scope = Scope::default();
        let mut offset = 0u32;
        for param in &entry.params {
            offset = offset.next_multiple_of(param.align);
            if param.bytes() > MAX_PARAMS || u64::from(offset) + param.bytes() > MAX_PARAMS {
                return Err(Error::Syntax {
                    line: entry.line,
                    message: format!("{}: more than {MAX_PARAMS} bytes of parameters", entry.name),
                });
            }
            let bytes = param.bytes() as u32;
            self.program.params.push(Parameter {
                name: param.name.clone(),
                offset,
                bytes,
                align: param.align,
            });
            scope.variables.insert(param.name.clone(), Place::At(Space::Param, u64::from(offset)));
            offset += bytes;
        }
        self.program.param_bytes = offset;
        self.scopes.push(scope);
        self.block(body)?;
        self.scopes.pop();
        // Falling off the end is a return.
        let needs_exit = !matches!(
            self.program.insts.last(),
            Some(Inst { op: Op::Exit | Op::Trap, guard: None, .. })
        ) || self.labels.iter().any(|&at| at as usize == self.program.insts.len());
        if needs_exit {
            self.begin(&Instruction {
                guard: None,
                opcode: "ret".into(),
                modifiers: Vec::new(),
                operands: Vec::new(),
                line: entry.line,
                text: "ret".into(),
            });
            self.emit(Op::Exit);
        }
        self.patch();
        cfg::reconverge(&mut self.program.insts);
        self.program.dynamic_base =
            self.program.shared_bytes.next_multiple_of(self.dynamic_align.max(16));
        self.program.granule = self.smallest;
        self.mark_touches();
        Ok(())
    }

    /// Replaces label numbers by instruction indices.
    fn patch(&mut self) {
        let labels = &self.labels;
        for inst in &mut self.program.insts {
            match &mut inst.op {
                Op::Branch { target, .. } => *target = labels[*target as usize],
                Op::BranchIndexed(op) => {
                    for target in &mut op.targets {
                        *target = labels[*target as usize];
                    }
                }
                _ => {}
            }
        }
    }

    /// Marks the instructions that touch registers of asynchronous matrix multiplies.
    fn mark_touches(&mut self) {
        let mut watched = HashSet::new();
        for (inst, touched) in self.program.insts.iter().zip(&self.all_touched) {
            if let Op::Wgmma(op) = &inst.op {
                watched.extend(touched.iter().filter(|(r, _)| {
                    r.class == Class::Narrow
                        && (op.d.contains(&r.slot)
                            || matches!(&op.a, crate::program::WgmmaA::Registers(a) if a.contains(&r.slot)))
                }).map(|&(r, _)| r));
            }
        }
        if watched.is_empty() {
            return;
        }
        for (inst, touched) in self.program.insts.iter_mut().zip(&self.all_touched) {
            if matches!(inst.op, Op::Wgmma(_)) {
                continue;
            }
            let touched: Vec<_> =
                touched.iter().filter(|(r, _)| watched.contains(r)).copied().collect();
            if !touched.is_empty() {
                inst.touches = self.program.touches.len() as u32;
                self.program.touches.push(touched);
            }
        }
    }

    fn block(&mut self, body: &[Statement]) -> Result<(), Error> {
        let mut scope = Scope::default();
        for statement in body {
            if let Statement::Label(name) = statement {
                scope.labels.insert(name.clone(), self.labels.len() as u32);
                self.labels.push(0);
            }
        }
        self.scopes.push(scope);
        for statement in body {
            match statement {
                Statement::Label(name) => {
                    let label = self.scope().labels[name];
                    self.labels[label as usize] = self.program.insts.len() as u32;
                }
                Statement::Register { name, count, ty } => self.declare(name, *count, *ty),
                Statement::Variable(variable) => self
                    .variable(variable)
                    .map_err(|message| Error::Syntax { line: self.line, message })?,
                Statement::BranchTargets(name, targets) => {
                    self.scope().targets.insert(name.clone(), targets.clone());
                }
                Statement::Block(inner) => self.block(inner)?,
                Statement::Instruction(inst) => self.statement(inst)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("statements stand in a scope")
    }

    fn allocate(&mut self, ty: Type, count: u32) -> Reg {
        let (class, next) = match ty {
            Type::Pred => (Class::Predicate, &mut self.program.predicates),
            _ if ty.bytes() <= 4 => (Class::Narrow, &mut self.program.narrow),
            _ => (Class::Wide, &mut self.program.wide),
        };
        let slot = *next;
        *next += count;
        Reg { class, slot }
    }

    fn declare(&mut self, name: &str, count: Option<u32>, ty: Type) {
        let first = self.allocate(ty, count.unwrap_or(1));
        match count {
            Some(count) => self.scope().families.push((name.to_owned(), first, count)),
            None => {
                self.scope().registers.insert(name.to_owned(), first);
            }
        }
    }

    /// A variable of function scope. `.param` there passes arguments and lives in the local frame.
    fn variable(&mut self, variable: &Variable) -> Lowered {
        let place = match variable.space {
            Space::Shared => Place::At(Space::Shared, self.lay_out_shared(variable)?),
            _ => Place::At(Space::Local, place(&mut self.program.local_bytes, variable)?),
        };
        self.scope().variables.insert(variable.name.clone(), place);
        Ok(())
    }

    fn lay_out_shared(&mut self, variable: &Variable) -> Lowered<u64> {
        place(&mut self.program.shared_bytes, variable)
    }

    fn find_register(&self, name: &str) -> Option<Reg> {
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

    fn find_variable(&mut self, name: &str) -> Lowered<Place> {
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
                Place::Dynamic
            }
            Space::Shared => match self.shared.get(name) {
                Some(&at) => Place::At(Space::Shared, at),
                None => {
                    let at = self.lay_out_shared(variable)?;
                    self.shared.insert(name.to_owned(), at);
                    Place::At(Space::Shared, at)
                }
            },
            _ => Place::Module(index as u32),
        })
    }

    fn constant(&mut self, class: Class, value: Constant) -> Reg {
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

    fn begin(&mut self, inst: &Instruction) {
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
            self.program.sources.push(Source {
                line: inst.line,
                text: inst.text.clone(),
                opcode,
                class: report::Class::Other,
                tensor_operations: 0,
            });
        }
        self.counted = true;
        self.guard = None;
        self.touched.clear();
    }

    fn emit(&mut self, op: Op) {
        self.program.insts.push(Inst {
            op,
            guard: self.guard,
            source: self.source,
            counted: std::mem::replace(&mut self.counted, false),
            touches: NOWHERE,
        });
        self.all_touched.push(self.touched.clone());
    }

    fn class(&mut self, class: report::Class) {
        self.program.sources[self.source as usize].class = class;
    }

    fn statement(&mut self, inst: &Instruction) -> Result<(), Error> {
        self.begin(inst);
        self.instruction(inst).map_err(|message| Error::Unsupported {
            line: inst.line,
            instruction: inst.text.clone(),
            message,
        })
    }

    fn instruction(&mut self, inst: &Instruction) -> Lowered {
        if let Some((name, negated)) = &inst.guard {
            let reg = self.register(name)?;
            if reg.class != Class::Predicate {
                return Err(format!("`{name}` is not a predicate"));
            }
            self.touched.push((reg, false));
            self.guard = Some(Guard { slot: reg.slot, negated: *negated });
        }
        let mut words = Words::new(&inst.modifiers);
        let operands = inst.operands.as_slice();
        let known = self.control(inst, &mut words, operands)?
            || self.scalar(&inst.opcode, &mut words, operands)?
            || self.memory(&inst.opcode, &mut words, operands)?
            || self.warp(&inst.opcode, &mut words, operands)?
            || self.tensor(&inst.opcode, &mut words, operands)?
            || self.asynchronous(&inst.opcode, &mut words, operands)?;
        if !known {
            return Err(format!("unknown instruction `{}`", inst.opcode));
        }
        words.finish()
    }

    fn control(
        &mut self,
        inst: &Instruction,
        words: &mut Words,
        operands: &[Operand],
    ) -> Lowered<bool> {
        let opcode = inst.opcode.as_str();
        if !matches!(opcode, "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" | "call") {
            return Ok(false);
        }
        self.class(report::Class::Control);
        words.take("uni");
        match (opcode, operands) {
            ("bra", [Operand::Name(label)]) => {
                let target = self.label(label)?;
                self.emit(Op::Branch { target, reconverge: NOWHERE });
            }
            ("brx", [index, Operand::Name(table)]) if words.take("idx") => {
                let index = self.source(index, Type::U32)?;
                let names = self
                    .scopes
                    .iter()
                    .rev()
                    .find_map(|s| s.targets.get(table))
                    .ok_or_else(|| format!("no branch targets named `{table}`"))?
                    .clone();
                let targets = names.iter().map(|n| self.label(n)).collect::<Lowered<_>>()?;
                self.emit(Op::BranchIndexed(Box::new(crate::program::BranchIndexed {
                    index,
                    targets,
                    reconverge: NOWHERE,
                })));
            }
            ("ret", []) => match self.calls.last() {
                Some(&end) => self.emit(Op::Branch { target: end, reconverge: NOWHERE }),
                None => self.emit(Op::Exit),
            },
            ("exit", []) => self.emit(Op::Exit),
            ("trap", []) => self.emit(Op::Trap),
            ("brkpt", []) => self.emit(Op::Nop),
            ("call", _) => self.call(operands)?,
            _ => return Err("operands do not fit".into()),
        }
        Ok(true)
    }

    fn label(&self, name: &str) -> Lowered<u32> {
        self.scopes
            .iter()
            .rev()
            .find_map(|s| s.labels.get(name))
            .copied()
            .ok_or_else(|| format!("no label `{name}` in scope"))
    }

    /// Expands the callee in place: its parameters are the caller's argument variables, its `ret` a
    /// branch to the end of the expansion.
    fn call(&mut self, operands: &[Operand]) -> Lowered {
        let (returns, name, arguments): (&[Operand], _, &[Operand]) = match operands {
            [Operand::List(r), Operand::Name(f), Operand::List(a)] => (r, f, a),
            [Operand::List(r), Operand::Name(f)] => (r, f, &[]),
            [Operand::Name(f), Operand::List(a)] => (&[], f, a),
            [Operand::Name(f)] => (&[], f, &[]),
            _ => return Err("indirect calls are not modelled".into()),
        };
        let unit = self.unit;
        let callee = unit.functions.iter().find(|f| &f.name == name && f.body.is_some());
        let Some(callee) = callee else {
            return Err(format!("function `{name}` has no body in this module"));
        };
        if self.calls.len() == CALL_DEPTH {
            return Err(format!("calls nest deeper than {CALL_DEPTH}: recursion is not modelled"));
        }
        if self.program.insts.len() > MAX_INSTRUCTIONS {
            return Err(format!(
                "more than {MAX_INSTRUCTIONS} instructions once calls are expanded"
            ));
        }
        if returns.len() != callee.returns.len() || arguments.len() != callee.params.len() {
            return Err(format!(
                "`{name}` takes {} arguments and returns {}, the call has {} and {}",
                callee.params.len(),
                callee.returns.len(),
                arguments.len(),
                returns.len()
            ));
        }
        let mut scope = Scope::default();
        let formal = callee.returns.iter().chain(&callee.params);
        for (variable, operand) in formal.zip(returns.iter().chain(arguments)) {
            let Operand::Name(argument) = operand else {
                return Err("arguments must be `.param` variables".into());
            };
            let place = self.find_variable(argument)?;
            scope.variables.insert(variable.name.clone(), place);
        }
        // A guarded call: branch around the expansion.
        let end = self.labels.len() as u32;
        self.labels.push(0);
        if let Some(guard) = self.guard {
            self.guard = Some(Guard { negated: !guard.negated, ..guard });
            self.emit(Op::Branch { target: end, reconverge: NOWHERE });
        } else {
            self.emit(Op::Nop);
        }
        // The callee sees module names and its own, not the caller's.
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        self.calls.push(end);
        let result = self.block(callee.body.as_ref().expect("found by its body"));
        self.calls.pop();
        self.scopes = outer;
        result.map_err(|e| format!("in `{name}`: {e}"))?;
        self.labels[end as usize] = self.program.insts.len() as u32;
        Ok(())
    }

    fn register(&self, name: &str) -> Lowered<Reg> {
        self.find_register(name).ok_or_else(|| format!("no register `{name}` in scope"))
    }

    /// The register class that operands of a type live in.
    fn class_of(ty: Type) -> Lowered<Class> {
        Ok(match ty {
            Type::Pred => Class::Predicate,
            Type::B128 => return Err("128-bit registers are not modelled".into()),
            _ if ty.bytes() <= 4 => Class::Narrow,
            _ => Class::Wide,
        })
    }

    /// Slot of a source operand of type `ty`; literals and names of variables become constants.
    fn source(&mut self, operand: &Operand, ty: Type) -> Lowered<u32> {
        let class = Self::class_of(ty)?;
        let reg = self.source_reg(operand, ty)?;
        if reg.class != class {
            return Err(format!("{operand:?} does not fit the type {ty:?}"));
        }
        Ok(reg.slot)
    }

    /// As [`Self::source`], whatever the register's class is.
    fn source_reg(&mut self, operand: &Operand, ty: Type) -> Lowered<Reg> {
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

    fn address_constant(&mut self, name: &str, offset: i64, class: Class) -> Lowered<Reg> {
        let place = self.find_variable(name)?;
        let value = match place {
            Place::At(_, at) => Constant::Bits(at.wrapping_add_signed(offset)),
            Place::Module(index) => Constant::Variable { index, offset },
            Place::Dynamic => Constant::Dynamic { offset },
        };
        Ok(self.constant(class, value))
    }

    /// Slot of a destination of type `ty`; `_` gets a register that nobody reads.
    fn destination(&mut self, operand: &Operand, ty: Type) -> Lowered<u32> {
        let class = Self::class_of(ty)?;
        let reg = self.destination_reg(operand, ty)?;
        if reg.class != class {
            return Err(format!("{operand:?} does not fit the type {ty:?}"));
        }
        Ok(reg.slot)
    }

    fn destination_reg(&mut self, operand: &Operand, ty: Type) -> Lowered<Reg> {
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

    /// An address operand in `space`.
    fn address(&mut self, operand: &Operand, space: Space) -> Lowered<Address> {
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
            Place::At(actual, at) => Ok(Address {
                space: if space == Space::Param { actual } else { space },
                base: None,
                offset: (at as i64).wrapping_add(offset),
            }),
            Place::Module(index) => {
                let reg = self.constant(Class::Wide, Constant::Variable { index, offset });
                Ok(Address { space, base: Some(reg), offset: 0 })
            }
            Place::Dynamic => {
                let reg = self.constant(Class::Wide, Constant::Dynamic { offset });
                Ok(Address { space, base: Some(reg), offset: 0 })
            }
        }
    }

    /// Notes a shared-memory access of `bytes`: the checks keep one record per smallest access.
    fn shared_access(&mut self, space: Space, bytes: u32) {
        if matches!(space, Space::Shared | Space::Generic) {
            self.smallest = self.smallest.min(bytes.max(1));
        }
    }

    fn vector(operand: &Operand) -> &[Operand] {
        match operand {
            Operand::Vector(items) => items,
            single => std::slice::from_ref(single),
        }
    }
}

/// Appends a variable to a memory of so many bytes; where it begins.
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
        // Clusters lie along x.
        ("%cluster_ctaid", 0) | ("%cluster_ctarank", 3) => Special::ClusterRank,
        ("%cluster_nctaid", 0) | ("%cluster_nctarank", 3) => Special::ClusterSize,
        // One multiprocessor runs the grid.
        ("%cluster_ctaid", 1..3) | ("%smid" | "%gridid", 3) => return Some(Constant::Bits(0)),
        ("%cluster_nctaid", 1..3) | ("%nsmid", 3) => return Some(Constant::Bits(1)),
        ("%is_explicit_cluster", 3) => return Some(Constant::Bits(0)),
        ("WARP_SZ", 3) => return Some(Constant::Bits(32)),
        _ => return None,
    };
    Some(Constant::Special(value))
}
