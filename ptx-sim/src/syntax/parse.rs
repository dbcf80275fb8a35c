//! The parser: tokens to [`Unit`].

use super::ast::{Function, Init, Instruction, Operand, Space, Statement, Type, Unit, Variable};
use super::lex::{Kind, Token, lex};
use crate::error::Error;
use crate::program::cluster_blocks;

/// Alignment of a variable at most.
const MAX_ALIGN: u64 = 1 << 16;
/// Elements of a variable at most; far more than any GPU's memory is an error and not an attempt.
const MAX_BYTES: u64 = 1 << 40;
/// The extent of `[]`.
const OPEN: u64 = 0;
/// Braces and parentheses within each other at most; LLVM's code has a few.
const MAX_DEPTH: u32 = 64;
/// Registers of one declaration at most.
const MAX_REGISTERS: u64 = 1 << 20;

/// Parses a translation unit.
pub fn parse(text: &str) -> Result<Unit, Error> {
    let tokens = lex(text)?;
    Parser { text, tokens, at: 0, depth: 0, location: None, files: Vec::new() }.unit()
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Braces and parentheses that are open.
    depth: u32,
    /// File and line of the latest `.loc` of this function.
    location: Option<(u64, u64)>,
    /// `.file` directives so far.
    files: Vec<(u64, String)>,
}

type Parsed<T> = Result<T, Error>;

impl Parser<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|t| &t.kind)
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    fn error<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.tokens.get(self.at) {
            Some(t) => format!("`{}`", &self.text[t.start..t.end]),
            None => "the end of the text".into(),
        };
        Err(Error::Syntax {
            line: self.line(),
            message: format!("expected {expected}, found {found}"),
        })
    }

    fn is(&self, c: char) -> bool {
        self.peek() == Some(&Kind::Punct(c))
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.is(c);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) { Ok(()) } else { self.error(&format!("`{c}`")) }
    }

    fn dotted(&self) -> Option<&str> {
        match self.peek() {
            Some(Kind::Dotted(d)) => Some(d),
            _ => None,
        }
    }

    fn eat_dotted(&mut self, word: &str) -> bool {
        let found = self.dotted() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Kind::Word(w)) => {
                let w = w.clone();
                self.at += 1;
                Ok(w)
            }
            _ => self.error("a name"),
        }
    }

    fn int(&mut self) -> Parsed<u64> {
        match self.peek() {
            Some(&Kind::Int(v)) => {
                self.at += 1;
                Ok(v)
            }
            _ => self.error("an integer"),
        }
    }

    /// Parses the contents of braces or parentheses, of which the first was read.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return self.error(&format!("at most {MAX_DEPTH} braces within each other"));
        }
        self.depth += 1;
        let found = parse(self);
        self.depth -= 1;
        found
    }

    fn unit(mut self) -> Parsed<Unit> {
        let mut unit = Unit::default();
        while let Some(kind) = self.peek().cloned() {
            let Kind::Dotted(word) = kind else { return self.error("a directive") };
            match word.as_str() {
                "version" | "address_size" => self.at += 2,
                "target" => {
                    self.at += 1;
                    let mut names = vec![self.word()?];
                    while self.eat(',') {
                        names.push(self.word()?);
                    }
                    unit.target = names.join(",");
                }
                "file" => self.file(),
                "loc" => self.skip_line(),
                "pragma" => self.skip_statement()?,
                "section" => self.skip_braces()?,
                _ => self.declaration(&mut unit)?,
            }
        }
        unit.files = self.files;
        Ok(unit)
    }

    /// `.file number "name"`, with whatever follows on the line.
    fn file(&mut self) {
        let tokens = &self.tokens[self.at..];
        if let [_, number, name, ..] = tokens
            && let (&Kind::Int(number), Kind::Text(name)) = (&number.kind, &name.kind)
        {
            self.files.push((number, name.clone()));
        }
        self.skip_line();
    }

    /// `.loc file line column`, with whatever follows on the line.
    fn loc(&mut self) {
        if let [_, file, line, ..] = &self.tokens[self.at..]
            && let (&Kind::Int(file), &Kind::Int(line)) = (&file.kind, &line.kind)
        {
            self.location = Some((file, line));
        }
        self.skip_line();
    }

    fn skip_line(&mut self) {
        let line = self.line();
        while self.tokens.get(self.at).is_some_and(|t| t.line == line) {
            self.at += 1;
        }
    }

    fn skip_statement(&mut self) -> Parsed<()> {
        while !self.eat(';') {
            if self.peek().is_none() {
                return self.error("`;`");
            }
            self.at += 1;
        }
        Ok(())
    }

    fn skip_braces(&mut self) -> Parsed<()> {
        let mut depth = 0;
        loop {
            match self.peek() {
                Some(Kind::Punct('{')) => depth += 1,
                Some(Kind::Punct('}')) => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Ok(());
                    }
                }
                None => return self.error("`}`"),
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A variable or a function, with its linkage.
    fn declaration(&mut self, unit: &mut Unit) -> Parsed<()> {
        let mut is_extern = false;
        loop {
            match self.dotted() {
                Some("extern") => is_extern = true,
                Some("visible" | "weak" | "common") => {}
                _ => break,
            }
            self.at += 1;
        }
        match self.dotted() {
            Some("entry" | "func") => {
                let function = self.function()?;
                unit.functions.push(function);
            }
            Some("alias") => self.skip_statement()?,
            _ => {
                let mut variables = self.variables(is_extern)?;
                unit.variables.append(&mut variables);
            }
        }
        Ok(())
    }

    fn space(&self) -> Option<Space> {
        Some(match self.dotted()? {
            "global" => Space::Global,
            "shared" => Space::Shared,
            "local" => Space::Local,
            "const" => Space::Const,
            "param" => Space::Param,
            _ => return None,
        })
    }

    /// `.space .align N .type name[N] = {...}, name2;` the semicolon included.
    fn variables(&mut self, is_extern: bool) -> Parsed<Vec<Variable>> {
        let (space, align, element, lanes) = self.variable_head()?;
        let mut variables = Vec::new();
        loop {
            let (mut variable, mut extents) = self.variable_tail(space, align, element, lanes)?;
            variable.is_extern = is_extern;
            if self.eat('=') {
                if lanes > 1 {
                    extents.push(lanes);
                }
                let rows = self.initialiser(element, &extents, lanes > 1, &mut variable.init)?;
                // `name[] = {...}` is as long as what is in the braces.
                if let [OPEN, row @ ..] = &extents[..] {
                    variable.count = rows * row.iter().product::<u64>();
                }
            }
            variables.push(variable);
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')?;
        Ok(variables)
    }

    fn variable_head(&mut self) -> Parsed<(Space, Option<u32>, Type, u64)> {
        let Some(space) = self.space() else {
            return self.error("a state space, `.entry` or `.func`");
        };
        self.at += 1;
        let mut align = None;
        let mut lanes = 1;
        loop {
            match self.dotted() {
                Some("align") => {
                    self.at += 1;
                    align = Some(self.alignment()?);
                }
                Some("attribute" | "managed") => {
                    self.at += 1;
                    if self.eat('(') {
                        while !self.eat(')') {
                            if self.peek().is_none() {
                                return self.error("`)`");
                            }
                            self.at += 1;
                        }
                    }
                }
                // `.param .u64 .ptr .global .align 16 name`
                Some("ptr" | "global" | "shared" | "const" | "local") => self.at += 1,
                Some("v2") => {
                    self.at += 1;
                    lanes = 2;
                }
                Some("v4") => {
                    self.at += 1;
                    lanes = 4;
                }
                Some(word) => match Type::parse(word) {
                    Some(ty) => {
                        self.at += 1;
                        // Words that follow the type of a parameter: `.ptr .global .align 8`.
                        while let Some(word) = self.dotted() {
                            match word {
                                "ptr" | "global" | "shared" | "const" | "local" => self.at += 1,
                                "align" => {
                                    self.at += 1;
                                    self.int()?;
                                }
                                _ => return self.error("a name"),
                            }
                        }
                        return Ok((space, align, ty, lanes));
                    }
                    None => return self.error("a type"),
                },
                None => return self.error("a type"),
            }
        }
    }

    fn alignment(&mut self) -> Parsed<u32> {
        match self.peek() {
            Some(&Kind::Int(n)) if n.is_power_of_two() && n <= MAX_ALIGN => {
                self.at += 1;
                Ok(n as u32)
            }
            _ => self.error(&format!("an alignment: a power of two up to {MAX_ALIGN}")),
        }
    }

    fn variable_tail(
        &mut self,
        space: Space,
        align: Option<u32>,
        element: Type,
        lanes: u64,
    ) -> Parsed<(Variable, Vec<u64>)> {
        let name = self.word()?;
        let mut count = lanes;
        let mut extents = Vec::new();
        while self.eat('[') {
            let extent = if self.is(']') { OPEN } else { self.int()? };
            extents.push(extent);
            count = match count.checked_mul(extent) {
                Some(n) if n <= MAX_BYTES => n,
                _ => return self.error(&format!("at most {MAX_BYTES} elements")),
            };
            self.expect(']')?;
        }
        let align = align.unwrap_or(element.bytes() * lanes as u32).max(1);
        let variable =
            Variable { name, space, align, element, count, is_extern: false, init: Vec::new() };
        Ok((variable, extents))
    }

    /// Braces within braces, one level for each extent, the innermost a vector's if there is one; returns what the
    /// outermost hold. Rows that are not full are not filled up: `ptxas` puts the next row's values right behind.
    fn initialiser(
        &mut self,
        element: Type,
        extents: &[u64],
        vector: bool,
        values: &mut Vec<Init>,
    ) -> Parsed<u64> {
        let Some((&extent, rows)) = extents.split_first() else {
            values.push(self.value(element)?);
            return Ok(1);
        };
        self.expect('{')?;
        let mut found = 0;
        while !self.eat('}') {
            if found == extent && extent != OPEN {
                return self.error(&format!("at most {extent} values in these braces"));
            }
            self.nested(|parser| parser.initialiser(element, rows, vector, values))?;
            found += 1;
            if !self.eat(',') && !self.is('}') {
                return self.error("`,` or `}`");
            }
        }
        if vector && rows.is_empty() && found != extent {
            self.at -= 1;
            return self.error(&format!("{extent} values in these braces"));
        }
        Ok(found)
    }

    fn value(&mut self, element: Type) -> Parsed<Init> {
        let negative = self.eat('-');
        let init = match self.peek().cloned() {
            Some(Kind::Int(v)) => {
                self.at += 1;
                Init::Bits(if negative { v.wrapping_neg() } else { v })
            }
            Some(Kind::F32(v)) => {
                self.at += 1;
                Init::Bits(u64::from(v ^ u32::from(negative) << 31))
            }
            Some(Kind::F64(v)) => {
                self.at += 1;
                let v = v ^ u64::from(negative) << 63;
                Init::Bits(if element == Type::F32 {
                    u64::from((f64::from_bits(v) as f32).to_bits())
                } else {
                    v
                })
            }
            Some(Kind::Word(w)) if w == "generic" => {
                self.at += 1;
                self.expect('(')?;
                let name = self.word()?;
                self.expect(')')?;
                Init::Symbol(name, self.offset()?)
            }
            Some(Kind::Word(name)) => {
                self.at += 1;
                Init::Symbol(name, self.offset()?)
            }
            _ => return self.error("a value"),
        };
        Ok(init)
    }

    /// An optional `+ n` or `- n`.
    fn offset(&mut self) -> Parsed<i64> {
        let mut sum = 0i64;
        loop {
            let sign = if self.eat('+') {
                1
            } else if self.is('-') {
                self.at += 1;
                -1
            } else {
                return Ok(sum);
            };
            // LLVM writes `[%rd1+-8]`.
            let sign = if self.eat('-') { -sign } else { sign };
            sum = sum.wrapping_add((self.int()? as i64).wrapping_mul(sign));
        }
    }

    /// Up to three numbers; those that are left out are 1, and none is beyond 32 bits.
    fn extents(&mut self) -> Parsed<[u32; 3]> {
        let mut shape = [1; 3];
        for extent in &mut shape {
            *extent = u32::try_from(self.int()?).unwrap_or(0);
            if !self.eat(',') {
                break;
            }
        }
        Ok(shape)
    }

    fn function(&mut self) -> Parsed<Function> {
        let line = self.line();
        let is_entry = self.dotted() == Some("entry");
        self.at += 1;
        let returns = if self.is('(') { self.parameters()? } else { Vec::new() };
        let name = self.word()?;
        let params = if self.is('(') { self.parameters()? } else { Vec::new() };
        let mut maxntid = None;
        let mut reqntid = false;
        let mut cluster = None;
        let mut max_cluster = None;
        let mut explicit_cluster = false;
        let mut min_blocks = 0;
        while let Some(word) = self.dotted().map(str::to_owned) {
            self.at += 1;
            match word.as_str() {
                "maxntid" | "reqntid" => {
                    maxntid = Some(self.extents()?);
                    reqntid = word == "reqntid";
                }
                "minnctapersm" => min_blocks = u32::try_from(self.int()?).unwrap_or(0),
                "maxnctapersm" | "maxnreg" => {
                    self.int()?;
                }
                "maxclusterrank" => max_cluster = Some(u32::try_from(self.int()?).unwrap_or(0)),
                "noreturn" => {}
                "explicitcluster" => explicit_cluster = true,
                "reqnctapercluster" => {
                    let shape = self.extents()?;
                    cluster_blocks(shape).map_err(|message| Error::Syntax {
                        line: self.line(),
                        message: format!(".{word}: {message}"),
                    })?;
                    cluster = Some(shape);
                }
                "blocksareclusters" => {
                    return Err(Error::Syntax {
                        line: self.line(),
                        message: format!(".{word}: grids counted in clusters are not modelled"),
                    });
                }
                "pragma" => self.skip_statement()?,
                _ => {
                    self.at -= 1;
                    return self.error("a performance directive or a function body");
                }
            }
        }
        self.location = None;
        let body = if self.eat(';') {
            None
        } else {
            self.expect('{')?;
            Some(self.block()?)
        };
        Ok(Function {
            name,
            is_entry,
            returns,
            params,
            maxntid,
            reqntid,
            cluster,
            max_cluster,
            explicit_cluster,
            min_blocks,
            body,
            line,
        })
    }

    fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        self.expect('(')?;
        let mut list = Vec::new();
        while !self.eat(')') {
            if self.dotted() == Some("reg") {
                return self.error("`.param` (parameters in registers are not modelled)");
            }
            let (space, align, element, lanes) = self.variable_head()?;
            list.push(self.variable_tail(space, align, element, lanes)?.0);
            if !self.eat(',') && !self.is(')') {
                return self.error("`,` or `)`");
            }
        }
        Ok(list)
    }

    /// Statements up to the closing brace, which is consumed.
    fn block(&mut self) -> Parsed<Vec<Statement>> {
        let mut body = Vec::new();
        while !self.eat('}') {
            match self.peek().cloned() {
                None => return self.error("`}`"),
                Some(Kind::Punct('{')) => {
                    self.at += 1;
                    body.push(Statement::Block(self.nested(Self::block)?));
                }
                Some(Kind::Punct(';')) => self.at += 1,
                Some(Kind::Dotted(word)) => match word.as_str() {
                    "reg" => self.registers(&mut body)?,
                    "loc" => self.loc(),
                    "file" => self.file(),
                    "pragma" => self.skip_statement()?,
                    _ => body.extend(self.variables(false)?.into_iter().map(Statement::Variable)),
                },
                Some(Kind::Word(name))
                    if self.tokens.get(self.at + 1).map(|t| &t.kind) == Some(&Kind::Punct(':')) =>
                {
                    self.at += 2;
                    if self.eat_dotted("branchtargets") {
                        let mut targets = vec![self.word()?];
                        while self.eat(',') {
                            targets.push(self.word()?);
                        }
                        self.expect(';')?;
                        body.push(Statement::BranchTargets(name, targets));
                    } else if matches!(self.dotted(), Some("callprototype" | "calltargets")) {
                        self.skip_statement()?;
                    } else {
                        body.push(Statement::Label(name));
                    }
                }
                Some(_) => body.push(Statement::Instruction(self.instruction()?)),
            }
        }
        Ok(body)
    }

    fn registers(&mut self, body: &mut Vec<Statement>) -> Parsed<()> {
        self.at += 1;
        let Some(ty) = self.dotted().and_then(Type::parse) else {
            return self.error("a register type");
        };
        self.at += 1;
        loop {
            let name = self.word()?;
            let count = if self.eat('<') {
                let count = self.int()?;
                if count > MAX_REGISTERS {
                    self.at -= 1;
                    return self.error(&format!("at most {MAX_REGISTERS} registers"));
                }
                self.expect('>')?;
                Some(count as u32)
            } else {
                None
            };
            body.push(Statement::Register { name, count, ty });
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')
    }

    fn instruction(&mut self) -> Parsed<Instruction> {
        let first = self.at;
        let guard = if self.eat('@') {
            let negated = self.eat('!');
            Some((self.word()?, negated))
        } else {
            None
        };
        let line = self.line();
        let opcode = self.word()?;
        let mut modifiers = Vec::new();
        while let Some(word) = self.dotted() {
            modifiers.push(word.to_owned());
            self.at += 1;
        }
        let mut operands = Vec::new();
        while !self.eat(';') {
            operands.push(self.operand()?);
            if !self.eat(',') && !self.is(';') {
                return self.error("`,` or `;`");
            }
        }
        let span = self.tokens[first].start..self.tokens[self.at - 1].start;
        let text = self.text[span].split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Instruction { guard, opcode, modifiers, operands, line, location: self.location, text })
    }

    fn list(&mut self, close: char) -> Parsed<Vec<Operand>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.operand()?);
            if !self.eat(',') && !self.is(close) {
                return self.error(&format!("`,` or `{close}`"));
            }
        }
        Ok(items)
    }

    fn operand(&mut self) -> Parsed<Operand> {
        let operand = self.simple_operand()?;
        if self.eat('|') {
            let second = self.simple_operand()?;
            return Ok(Operand::Pair(Box::new(operand), Box::new(second)));
        }
        Ok(operand)
    }

    fn simple_operand(&mut self) -> Parsed<Operand> {
        match self.peek().cloned() {
            Some(Kind::Punct('{')) => {
                self.at += 1;
                Ok(Operand::Vector(self.nested(|parser| parser.list('}'))?))
            }
            Some(Kind::Punct('(')) => {
                self.at += 1;
                Ok(Operand::List(self.nested(|parser| parser.list(')'))?))
            }
            Some(Kind::Punct('!')) => {
                self.at += 1;
                Ok(Operand::Not(self.word()?))
            }
            Some(Kind::Punct('[')) => {
                self.at += 1;
                self.address()
            }
            Some(Kind::Punct('-')) => {
                self.at += 1;
                match self.peek().cloned() {
                    Some(Kind::Int(v)) => {
                        self.at += 1;
                        Ok(Operand::Int((v as i64).wrapping_neg()))
                    }
                    Some(Kind::F32(v)) => {
                        self.at += 1;
                        Ok(Operand::F32(v ^ 1 << 31))
                    }
                    Some(Kind::F64(v)) => {
                        self.at += 1;
                        Ok(Operand::F64(v ^ 1 << 63))
                    }
                    _ => self.error("a number"),
                }
            }
            Some(Kind::Int(v)) => {
                self.at += 1;
                Ok(Operand::Int(v as i64))
            }
            Some(Kind::F32(v)) => {
                self.at += 1;
                Ok(Operand::F32(v))
            }
            Some(Kind::F64(v)) => {
                self.at += 1;
                Ok(Operand::F64(v))
            }
            Some(Kind::Word(mut name)) => {
                self.at += 1;
                while let Some(component) = self.dotted() {
                    name = format!("{name}.{component}");
                    self.at += 1;
                }
                if self.is('+') || self.is('-') {
                    let offset = self.offset()?;
                    return Ok(Operand::Sum(name, offset));
                }
                Ok(Operand::Name(name))
            }
            _ => self.error("an operand"),
        }
    }

    /// Parses an address behind its `[`.
    fn address(&mut self) -> Parsed<Operand> {
        let base = match self.peek() {
            Some(Kind::Word(_)) => Some(self.word()?),
            Some(Kind::Int(_) | Kind::Punct('-')) => None,
            _ => return self.error("an address"),
        };
        let mut offset = match self.peek() {
            Some(&Kind::Int(v)) if base.is_none() => {
                self.at += 1;
                v as i64
            }
            _ => 0,
        };
        offset = offset.wrapping_add(self.offset()?);
        if let Some(map) = base.clone()
            && self.eat(',')
        {
            self.expect('{')?;
            let coordinates = self.list('}')?;
            self.expect(']')?;
            return Ok(Operand::Tensor { map, offset, coordinates });
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset })
    }
}
