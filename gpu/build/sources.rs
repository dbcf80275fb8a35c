//! Hashes of what the PTX of each kernel depends on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use sha2::{Digest, Sha256};

use crate::abi::ENTRIES;

/// Result of building kernels; an error is a sentence.
pub type Result<T> = std::result::Result<T, String>;

/// Sources of every kernel, by its name.
pub type Sources = BTreeMap<&'static str, KernelSources>;

/// Sources of a kernel.
#[derive(Clone)]
pub struct KernelSources {
    /// Hash of the tokens of the files that declare the kernel, that define it, and that these files import. Comments and
    /// spaces are no matter.
    pub hash: String,
    /// Folders that define it: `correlate`. Their kernels are compiled together, since what they share is compiled with
    /// regard to all that use it.
    pub folders: BTreeSet<String>,
    /// Folders that it must be compiled with.
    pub needs: BTreeSet<String>,
}

/// Finds the sources of every kernel.
///
/// # Errors
/// A file that cannot be read or is not Rust; a kernel that is not declared; `asm!` or text of PTX outside `isa`.
pub fn sources(package: &Path) -> Result<Sources> {
    let files = read(package)?;
    let modules: BTreeMap<&[String], &Path> = files
        .iter()
        .filter_map(|(path, file)| Some((file.module.as_deref()?, path.as_path())))
        .collect();
    let imports: BTreeMap<&Path, BTreeSet<&Path>> =
        files.iter().map(|(path, file)| (path.as_path(), Imports::of(file, &modules))).collect();
    files.iter().try_for_each(|(path, file)| {
        check(&file.trees, path, file.module.as_deref())?;
        check_texts(&file.trees, path, file.module.as_deref())
    })?;

    let is_abi =
        |file: &File| matches!(file.module.as_deref(), Some([first, ..]) if first == "abi");
    // Tables of kernels: what a macro of `abi` names is stamped by the file that calls the macro.
    let tables: Vec<&(String, BTreeSet<String>)> =
        files.values().filter(|file| is_abi(file)).flat_map(|file| &file.macros).collect();
    // Files that every kernel depends on: the crate's root, macros that need no import, what compiles.
    let common: Vec<&Path> = files
        .iter()
        .filter(|(path, file)| match file.module.as_deref() {
            None | Some([]) => true,
            Some([first, ..]) => first == "isa" || path.ends_with("tile/mod.rs"),
        })
        .map(|(path, _)| path.as_path())
        .collect();
    let source = |kernel: &str| {
        let called: Vec<&String> = tables
            .iter()
            .filter_map(|(name, names)| names.contains(kernel).then_some(name))
            .collect();
        let defines = |file: &File| {
            let names = &file.names;
            !is_abi(file)
                && (names.contains(kernel) || called.iter().any(|name| names.contains(*name)))
        };
        let defining =
            files.iter().filter(|(_, file)| defines(file)).map(|(path, _)| path.as_path());
        let mut open: Vec<&Path> = defining.collect();
        let folders = folders_of(&open, &files);
        if open.is_empty() {
            open.extend(files.keys().map(PathBuf::as_path));
        }
        open.extend(&common);
        let closed = closure(open, &imports);
        let mut needs = folders_of(&closed, &files);
        loop {
            // A folder is compiled whole, with what its other files import.
            let whole = files
                .iter()
                .filter(|(_, file)| file.folder().is_some_and(|folder| needs.contains(folder)));
            let whole = closure(whole.map(|(path, _)| path.as_path()).collect(), &imports);
            let more = folders_of(&whole, &files);
            if more.len() == needs.len() {
                break;
            }
            needs = more;
        }
        let mut hash = Sha256::new();
        for path in closed {
            hash.update(path.strip_prefix(package).unwrap_or(path).to_string_lossy().as_bytes());
            hash.update(&files[path].hash);
        }
        KernelSources { hash: hex(&hash.finalize()), folders, needs }
    };
    Ok(ENTRIES.iter().map(|entry| (entry.name, source(entry.name))).collect())
}

/// Files and all that they import.
fn closure<'a>(
    mut open: Vec<&'a Path>,
    imports: &BTreeMap<&'a Path, BTreeSet<&'a Path>>,
) -> BTreeSet<&'a Path> {
    let mut closed = BTreeSet::new();
    while let Some(path) = open.pop() {
        if closed.insert(path) {
            open.extend(&imports[path]);
        }
    }
    closed
}

fn folders_of<'a>(
    paths: impl IntoIterator<Item = &'a &'a Path>,
    files: &BTreeMap<PathBuf, File>,
) -> BTreeSet<String> {
    paths.into_iter().filter_map(|path| files[*path].folder()).map(str::to_owned).collect()
}

/// The first 16 bytes of a hash, in hexadecimal digits.
pub fn hex(hash: &[u8]) -> String {
    hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file of the device code or of its build.
struct File {
    /// Path of the module in the crate; none of what builds it.
    module: Option<Vec<String>>,
    trees: Vec<TokenTree>,
    hash: Vec<u8>,
    /// Every identifier.
    names: BTreeSet<String>,
    /// Identifiers of each macro that it defines.
    macros: Vec<(String, BTreeSet<String>)>,
}

fn read(package: &Path) -> Result<BTreeMap<PathBuf, File>> {
    fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                collect(&path, files)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path);
            }
        }
        Ok(())
    }
    let source = package.join("src");
    let mut paths =
        BTreeSet::from([package.join("build/compile.rs"), package.join("build/finish.rs")]);
    collect(&source, &mut paths).map_err(|error| format!("gpu/src: {error}"))?;
    paths.into_iter().map(|path| Ok((path.clone(), File::read(&path, &source)?))).collect()
}

impl File {
    /// The folder of kernels that it is in.
    fn folder(&self) -> Option<&str> {
        let first = self.module.as_deref()?.first()?;
        (!["abi", "isa", "ptx", "tile"].contains(&first.as_str())).then_some(first)
    }

    fn read(path: &Path, source: &Path) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        let tokens: TokenStream = text.parse().map_err(|error| failed(&error))?;
        let mut hash = Sha256::new();
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        hash_trees(&trees, &mut hash);
        let (mut names, mut macros) = (BTreeSet::new(), Vec::new());
        collect_names(&trees, &mut names);
        for [name, bang, defined, body] in trees.array_windows() {
            if let TokenTree::Group(body) = body
                && name.to_string() == "macro_rules"
                && bang.to_string() == "!"
            {
                let mut names = BTreeSet::new();
                collect_names(&body.stream().into_iter().collect::<Vec<_>>(), &mut names);
                macros.push((defined.to_string(), names));
            }
        }
        let module = path.strip_prefix(source).ok().map(|path| {
            let path = path.with_extension("");
            let mut module: Vec<String> =
                path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            module.pop_if(|last| ["mod", "lib"].contains(&last.as_str()));
            module
        });
        Ok(Self { module, trees, hash: hash.finalize().to_vec(), names, macros })
    }
}

fn collect_names(trees: &[TokenTree], names: &mut BTreeSet<String>) {
    for tree in trees {
        match tree {
            TokenTree::Ident(name) => {
                names.insert(name.to_string());
            }
            TokenTree::Group(group) => {
                collect_names(&group.stream().into_iter().collect::<Vec<_>>(), names);
            }
            _ => {}
        }
    }
}

/// Fails on a `kernel!` with a name that `abi` does not declare, which the host could not launch, and on `asm!` outside
/// `isa`.
fn check(trees: &[TokenTree], path: &Path, module: Option<&[String]>) -> Result<()> {
    let is_isa = module.and_then(<[String]>::first).is_none_or(|first| first == "isa");
    for [name, bang, body] in trees.array_windows() {
        let TokenTree::Group(body) = body else { continue };
        if bang.to_string() != "!" {
            continue;
        }
        let name = name.to_string();
        if !is_isa && ["asm", "global_asm", "naked_asm", "ptx"].contains(&name.as_str()) {
            return Err(format!(
                "{}: {name}! stands outside gpu/src/isa: write a wrapper there, named after the instruction",
                path.display()
            ));
        }
        if name != "kernel" {
            continue;
        }
        let body: Vec<TokenTree> = body.stream().into_iter().collect();
        for [keyword, kernel] in body.array_windows() {
            if keyword.to_string() == "fn"
                && matches!(kernel, TokenTree::Ident(_))
                && ENTRIES.iter().all(|entry| *kernel.to_string() != *entry.name)
            {
                return Err(format!(
                    "{}: kernel {kernel} has no row in gpu/src/abi, which says how it is launched",
                    path.display()
                ));
            }
        }
    }
    trees.iter().try_for_each(|tree| match tree {
        TokenTree::Group(group) => {
            check(&group.stream().into_iter().collect::<Vec<_>>(), path, module)
        }
        _ => Ok(()),
    })
}

/// Fails on the text of an instruction or a declaration of PTX outside `isa`; but for `abi`, whose tables name instructions,
/// and `ptx`, which reads PTX.
fn check_texts(trees: &[TokenTree], path: &Path, module: Option<&[String]>) -> Result<()> {
    let first = module.and_then(<[String]>::first);
    if first.is_none_or(|first| ["isa", "abi", "ptx"].contains(&first.as_str())) {
        return Ok(());
    }
    let mut index = 0;
    while index < trees.len() {
        if let Some(length) = doc_length(&trees[index..]) {
            index += length;
            continue;
        }
        match &trees[index] {
            TokenTree::Group(group) => {
                check_texts(&group.stream().into_iter().collect::<Vec<_>>(), path, module)?;
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if let Some(word) =
                    text.split(|byte: char| " \"\\;{}".contains(byte)).find(|word| is_ptx(word))
                {
                    return Err(format!(
                        "{}: PTX ({word}) stands outside gpu/src/isa: compose the step of gpu/src/isa/scope.rs, or \
                         write a wrapper in gpu/src/isa",
                        path.display()
                    ));
                }
            }
            _ => {}
        }
        index += 1;
    }
    Ok(())
}

/// Whether a word is a directive or an opcode of PTX: names joined by dots, one of which is a type of operands, a
/// state space, or says how threads take part.
fn is_ptx(word: &str) -> bool {
    const PARTS: [&str; 26] = [
        "b1", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32",
        "s64", "f16", "f16x2", "bf16", "f32", "f64", "pred", "reg", "sync", "async", "global",
        "shared", "proxy",
    ];
    let mut parts = word.split(['.', ':']);
    let opcode = parts.next().unwrap_or_default();
    opcode.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && parts.any(|part| PARTS.contains(&part))
}

/// Modules that the paths of a file lead to.
struct Imports<'a> {
    modules: &'a BTreeMap<&'a [String], &'a Path>,
    found: BTreeSet<&'a Path>,
}

impl<'a> Imports<'a> {
    fn of(file: &File, modules: &'a BTreeMap<&'a [String], &'a Path>) -> BTreeSet<&'a Path> {
        let mut imports = Self { modules, found: BTreeSet::new() };
        if let Some(module) = &file.module {
            imports.scan(&file.trees, module);
        }
        imports.found
    }

    /// Follows every path that begins with `crate`, `self`, `super` or a child of `module`.
    fn scan(&mut self, trees: &[TokenTree], module: &[String]) {
        let mut index = 0;
        while index < trees.len() {
            match &trees[index] {
                TokenTree::Group(group) => {
                    self.scan(&group.stream().into_iter().collect::<Vec<_>>(), module);
                }
                TokenTree::Ident(name) if is_separator(trees, index + 1) => {
                    let name = name.to_string();
                    let inside = index > 0 && trees[index - 1].to_string() == ":";
                    let child = [module, std::slice::from_ref(&name)].concat();
                    match name.as_str() {
                        "crate" => self.follow(&trees[index + 3..], Vec::new()),
                        "self" => self.follow(&trees[index + 3..], module.to_vec()),
                        "super" if !inside => self.follow(&trees[index..], module.to_vec()),
                        _ if !inside && self.modules.contains_key(child.as_slice()) => {
                            self.follow(&trees[index + 3..], child);
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            index += 1;
        }
    }

    /// Adds the modules that a path or a tree of paths from `module` on names.
    fn follow(&mut self, trees: &[TokenTree], mut module: Vec<String>) {
        match trees.first() {
            Some(TokenTree::Ident(name)) => {
                let name = name.to_string();
                if name == "super" {
                    module.pop();
                } else {
                    module.push(name);
                    if !self.modules.contains_key(module.as_slice()) {
                        module.pop();
                        self.add(&module);
                        return;
                    }
                }
                if is_separator(trees, 1) {
                    self.follow(&trees[3..], module);
                } else {
                    self.add(&module);
                }
            }
            Some(TokenTree::Group(group)) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                for part in inside.split(|tree| tree.to_string() == ",") {
                    self.follow(part, module.clone());
                }
            }
            Some(_) => self.add(&module),
            None => {}
        }
    }

    fn add(&mut self, module: &[String]) {
        if let Some(path) = self.modules.get(module) {
            self.found.insert(path);
        }
    }
}

/// Whether `::` stands at `index`.
fn is_separator(trees: &[TokenTree], index: usize) -> bool {
    let is_colon = |index| {
        let colon =
            |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ':');
        trees.get(index).is_some_and(colon)
    };
    is_colon(index) && is_colon(index + 1)
}

/// Number of tokens of the documentation that stands first, which to Rust is an attribute: `#[doc = "..."]`.
fn doc_length(trees: &[TokenTree]) -> Option<usize> {
    let is_punct = |index: usize, text: char| {
        trees
            .get(index)
            .is_some_and(|tree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == text))
    };
    let inner = usize::from(is_punct(1, '!'));
    let Some(TokenTree::Group(group)) = trees.get(1 + inner) else { return None };
    let mut inside = group.stream().into_iter();
    let is_doc = is_punct(0, '#')
        && group.delimiter() == Delimiter::Bracket
        && inside.next().is_some_and(|first| first.to_string() == "doc")
        && inside.next().is_some_and(|second| second.to_string() == "=");
    is_doc.then_some(2 + inner)
}

/// Adds tokens to a hash, but for documentation.
fn hash_trees(trees: &[TokenTree], hash: &mut Sha256) {
    let mut index = 0;
    while index < trees.len() {
        if let Some(length) = doc_length(&trees[index..]) {
            index += length;
            continue;
        }
        match &trees[index] {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                hash.update(open);
                hash_trees(&group.stream().into_iter().collect::<Vec<_>>(), hash);
                hash.update(close);
            }
            token => hash.update(token.to_string()),
        }
        // Between any two, so that no two sequences look the same.
        hash.update("\n");
        index += 1;
    }
}
