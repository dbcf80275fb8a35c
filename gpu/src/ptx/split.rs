//! A module of PTX, taken apart into its kernels. Section of `build.rs`, too.

extern crate alloc;

use alloc::{string::String, vec::Vec};

/// A piece of a module.
struct Section<'a> {
    kind: Kind,
    name: &'a str,
    text: String,
}

#[derive(PartialEq)]
enum Kind {
    /// Statement about the whole module: version, target, size of addresses.
    Directive,
    Variable,
    Function,
    Kernel,
}

/// The kernels of a PTX module: the name of each, and a module of it alone with the variables that it names
/// and all functions. Lines stay as they are.
pub fn split(module: &str) -> Vec<(&str, String)> {
    let mut parts: Vec<Section> = Vec::new();
    // Whether the last part goes on to its last brace.
    let mut open = false;
    for line in module.lines() {
        let is_declaration = line.starts_with('.');
        if !open && is_declaration {
            let (kind, name) = if let Some((_, rest)) = line.split_once(".entry ") {
                (Kind::Kernel, rest.split(['(', ' ']).next())
            } else if line.contains(".func ") {
                (Kind::Function, None)
            } else if line.contains(';') {
                let before = line.split(['[', '=', ';']).next();
                (Kind::Variable, before.and_then(|before| before.split_whitespace().last()))
            } else {
                (Kind::Directive, None)
            };
            open = matches!(kind, Kind::Kernel | Kind::Function);
            parts.push(Section { kind, name: name.unwrap_or_default(), text: String::new() });
        }
        if (open || is_declaration)
            && let Some(part) = parts.last_mut()
        {
            part.text.push_str(line);
            part.text.push('\n');
        }
        open &= line != "}";
    }
    let module_of = |kernel: &Section| {
        let belongs = |part: &&Section| match part.kind {
            Kind::Directive | Kind::Function => true,
            Kind::Variable => kernel.text.contains(part.name),
            Kind::Kernel => part.name == kernel.name,
        };
        parts.iter().filter(belongs).map(|part| part.text.as_str()).collect::<String>()
    };
    let kernels = parts.iter().filter(|part| part.kind == Kind::Kernel);
    kernels.map(|kernel| (kernel.name, module_of(kernel))).collect()
}
