//! From text to a syntax tree. Names are not resolved here, and no instruction is known by name.

pub(crate) mod ast;
mod lex;
mod parse;

pub(crate) use parse::parse;
