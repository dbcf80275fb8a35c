//! Entries, blocks and statements; branches and calls.

use std::collections::HashSet;

use super::builder::{Lower, Lowered, Scope, VariableAddress};
use super::words::Words;
use crate::cfg;
use crate::error::Error;
use crate::lanes::Class;
use crate::program::{self, Guard, Inst, NOWHERE, Op, Parameter, Program};
use crate::syntax::ast::{Function, Instruction, Operand, Space, Statement, Type, Unit};

/// Bytes of the parameters of an entry at most (PTX ISA, from sm_70 on).
const MAX_PARAMS: u64 = 32_764;
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

impl Lower<'_> {
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
        self.program.max_cluster = entry.max_cluster;
        self.program.explicit_cluster = entry.explicit_cluster;
        self.program.min_blocks = entry.min_blocks;
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
            scope
                .variables
                .insert(param.name.clone(), VariableAddress::At(Space::Param, u64::from(offset)));
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
                location: None,
                text: "ret".into(),
            });
            self.emit(Op::Exit);
        }
        self.patch();
        cfg::reconverge(&mut self.program.insts);
        self.program.dynamic_base =
            self.program.shared_bytes.next_multiple_of(self.dynamic_align.max(16));
        self.program.granule = self.smallest;
        self.program.global_granule = self.smallest_global;
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
        self.class(program::Class::Control);
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
}
