//! The syntax tree: variables, functions, and statements in their scopes.

/// A translation unit.
#[derive(Debug, Default)]
pub struct Unit {
    pub target: String,
    /// Names that `.file` gives to numbers.
    pub files: Vec<(u64, String)>,
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
}

/// State spaces of variables and of memory instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Const,
    Param,
}

/// Fundamental types. `B*` are untyped bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

impl Type {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Size in bytes; predicates count as one.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }
}

/// A variable with an address: module scope or function scope.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    pub space: Space,
    pub align: u32,
    pub element: Type,
    /// Elements; 0 for an unsized `.extern` array.
    pub count: u64,
    pub is_extern: bool,
    pub init: Vec<Init>,
}

impl Variable {
    pub fn bytes(&self) -> u64 {
        self.count * u64::from(self.element.bytes())
    }
}

/// One element of an initialiser.
#[derive(Debug, Clone)]
pub enum Init {
    /// The element's bits.
    Bits(u64),
    /// The address of a variable plus an offset.
    Symbol(String, i64),
}

/// `.entry` or `.func`.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub is_entry: bool,
    pub returns: Vec<Variable>,
    pub params: Vec<Variable>,
    pub maxntid: Option<[u32; 3]>,
    pub reqntid: bool,
    /// Blocks of a cluster along x, y, z, if given.
    pub cluster: Option<[u32; 3]>,
    /// Most blocks of a cluster, if given.
    pub max_cluster: Option<u32>,
    /// Whether a launch must have clusters.
    pub explicit_cluster: bool,
    /// Blocks of a multiprocessor that the registers must allow; 0: any number.
    pub min_blocks: u32,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    pub line: u32,
}

/// Statement of a function body.
#[derive(Debug)]
pub enum Statement {
    Label(String),
    /// `.reg .type name` or `name<count>`.
    Register {
        name: String,
        count: Option<u32>,
        ty: Type,
    },
    Variable(Variable),
    /// `name: .branchtargets a, b, c;`
    BranchTargets(String, Vec<String>),
    Block(Vec<Statement>),
    Instruction(Instruction),
}

#[derive(Debug, Clone)]
pub struct Instruction {
    /// Predicate register and whether it is negated.
    pub guard: Option<(String, bool)>,
    pub opcode: String,
    pub modifiers: Vec<String>,
    pub operands: Vec<Operand>,
    pub line: u32,
    /// Number of a `.file` and its line, from the `.loc` before the instruction.
    pub location: Option<(u64, u64)>,
    /// The statement as written, whitespace folded, without the semicolon.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Register, label, variable or special register (`%tid.x`).
    Name(String),
    /// `name + offset` or `name - offset` outside of brackets.
    Sum(String, i64),
    /// Integer literal, two's complement.
    Int(i64),
    F32(u32),
    F64(u64),
    /// `!p`
    Not(String),
    /// `a | b`
    Pair(Box<Operand>, Box<Operand>),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `(a, b)`
    List(Vec<Operand>),
    /// `[base + offset]`; no base for an absolute address.
    Address {
        base: Option<String>,
        offset: i64,
    },
    /// `[map, {c0, c1, ...}]`
    Tensor {
        map: String,
        offset: i64,
        coordinates: Vec<Operand>,
    },
}
