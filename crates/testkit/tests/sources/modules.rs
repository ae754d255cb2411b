//! The modules of a crate, read from its sources: what each declares, imports and names, and the texts in it.
//!
//! Names are resolved as far as modules need it: a path is followed through modules, imports, re-exports and globs to
//! the module that declares the item. What only the compiler could tell (methods, what macros make) is left alone, and
//! so is everything under `#[cfg(test)]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// A path as it is written, word by word.
type Words = Vec<String>;

/// All modules of a crate, its root first.
#[derive(Default)]
pub(crate) struct Crate {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    /// Its name and those of the modules that it lies in, the outermost first.
    path: Words,
    parent: usize,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// What each imported name stands for.
    imports: BTreeMap<String, Words>,
    globs: Vec<Words>,
    /// Every path that is written in it, imports included.
    named: BTreeSet<Words>,
    /// Its texts and byte strings, without their quotes.
    texts: BTreeSet<String>,
}

/// A module's use of another.
pub(crate) struct Use<'c> {
    pub(crate) from: &'c [String],
    pub(crate) to: &'c [String],
    /// The path that is written there.
    pub(crate) named: &'c [String],
}

impl Crate {
    /// Reads a crate from its root; `source` gives the text of a file, where there is one.
    pub(crate) fn read(root: &Path, source: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut found = Self { modules: vec![Module::default()] };
        let folder = root.parent().unwrap_or(Path::new(""));
        found.read_file(0, root, folder, source);
        found
    }

    /// Every use of a module by another.
    pub(crate) fn uses(&self) -> impl Iterator<Item = Use<'_>> {
        (0..self.modules.len()).flat_map(move |from| {
            self.modules[from].named.iter().filter_map(move |named| {
                let to = self.resolve(from, named, 0)?.module();
                Some(Use { from: &self.modules[from].path, to: &self.modules[to].path, named })
            })
        })
    }

    /// Every path that is written in it, imports included, after the module that it stands in.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&[String], &[String])> {
        self.modules.iter().flat_map(|module| module.named.iter().map(|named| (&module.path[..], &named[..])))
    }

    /// The names of its rooms.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = &str> {
        self.modules[0].children.keys().map(String::as_str)
    }

    /// Every text and byte string in it.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().flat_map(|module| &module.texts).map(String::as_str)
    }

    fn read_file(&mut self, at: usize, file: &Path, folder: &Path, source: &dyn Fn(&Path) -> Option<String>) {
        let text = source(file).unwrap_or_else(|| panic!("{}: no such file", file.display()));
        let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.read_items(at, tokens, folder, source);
    }

    fn read_items(&mut self, at: usize, tokens: TokenStream, folder: &Path, source: &dyn Fn(&Path) -> Option<String>) {
        for item in items(tokens) {
            match declared_module(&item) {
                Some((name, body)) => {
                    let path = self.modules[at].path.iter().cloned().chain([name.clone()]).collect();
                    let child = self.modules.len();
                    self.modules.push(Module { path, parent: at, ..Module::default() });
                    self.modules[at].children.insert(name.clone(), child);
                    let inner = folder.join(&name);
                    match body {
                        Some(body) => self.read_items(child, body.stream(), &inner, source),
                        None => {
                            let beside: PathBuf = folder.join(format!("{name}.rs"));
                            let file = if source(&beside).is_some() { beside } else { inner.join("mod.rs") };
                            self.read_file(child, &file, &inner, source);
                        }
                    }
                }
                None => self.modules[at].read_item(&item),
            }
        }
    }

    /// What a path stands for, written in a module; none where it leads out of the crate.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Meaning> {
        let mut at = from;
        let mut rest = path;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.modules[at].parent,
                _ => break,
            }
            rest = after;
        }
        let is_rooted = rest.len() < path.len();
        for (step, word) in rest.iter().enumerate() {
            match self.look_up(at, word, depth) {
                Some(Meaning::Module(module)) => at = module,
                Some(item) => return Some(item),
                // An item of a kind that isn't looked for.
                None if is_rooted || step > 0 => return Some(Meaning::ItemOf(at)),
                None => return None,
            }
        }
        Some(Meaning::Module(at))
    }

    /// What a name stands for in a module.
    fn look_up(&self, at: usize, name: &str, depth: usize) -> Option<Meaning> {
        // Globs may lead in circles.
        if depth > 16 {
            return None;
        }
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Meaning::Module(*child));
        }
        if module.items.contains(name) {
            return Some(Meaning::ItemOf(at));
        }
        if let Some(path) = module.imports.get(name) {
            // `use core::…` in a module with a name of its own like that means the other crate.
            return if path.first().is_some_and(|first| first == name) {
                None
            } else {
                self.resolve(at, path, depth + 1)
            };
        }
        module.globs.iter().find_map(|glob| match self.resolve(at, glob, depth + 1)? {
            Meaning::Module(other) => self.look_up(other, name, depth + 1),
            Meaning::ItemOf(_) => None,
        })
    }
}

/// What a path stands for.
#[derive(Clone, Copy)]
enum Meaning {
    Module(usize),
    ItemOf(usize),
}

impl Meaning {
    fn module(self) -> usize {
        match self {
            Self::Module(module) | Self::ItemOf(module) => module,
        }
    }
}

impl Module {
    fn read_item(&mut self, item: &[TokenTree]) {
        const DECLARING: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
        let is_impl = item.first().and_then(word).is_some_and(|first| first == "impl");
        let declared = item.windows(2).find_map(|pair| {
            let is_declaring = DECLARING.contains(&word(&pair[0])?.as_str());
            // The name, and not the rest of `const fn` or `unsafe extern fn`.
            word(&pair[1]).filter(|name| is_declaring && !["fn", "unsafe", "extern", "async"].contains(&name.as_str()))
        });
        let declared = declared.or_else(|| match item {
            [rules, _, name, ..] if word(rules)? == "macro_rules" => word(name),
            _ => None,
        });
        self.items.extend(declared.filter(|_| !is_impl));
        self.read_paths(item);
    }

    /// Notes every path in these tokens, every import and every text.
    fn read_paths(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => {
                    for item in items(group.stream()) {
                        self.read_paths(&item);
                    }
                }
                TokenTree::Ident(ident) if *ident == "use" && !is_punct(tokens.get(at), '<') => {
                    let end = tokens[at..].iter().position(|token| is_punct(Some(token), ';'));
                    let end = end.map_or(tokens.len(), |end| at + end);
                    self.read_import(&tokens[at..end], &[]);
                    at = end;
                }
                TokenTree::Ident(first) => {
                    let mut path = vec![name(first)];
                    let is_inner = at >= 3 && is_path_separator(&tokens[at - 3..]);
                    while is_path_separator(&tokens[at..])
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                    {
                        path.push(name(next));
                        at += 3;
                    }
                    if path.len() > 1 && !is_inner {
                        self.named.insert(path);
                    }
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let text = text.trim_start_matches('b').strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                    self.texts.extend(text.map(str::to_owned));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// Notes what one tree of a `use` brings, below `before`.
    fn read_import(&mut self, tree: &[TokenTree], before: &[String]) {
        let mut path = before.to_vec();
        let mut alias = None;
        let mut tokens = tree.iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) if *ident == "as" => alias = tokens.next().and_then(word),
                TokenTree::Ident(ident) => path.push(name(ident)),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| is_punct(Some(token), ',')).filter(|tree| !tree.is_empty()) {
                        self.read_import(tree, &path);
                    }
                    return;
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.named.insert(path.clone());
                    self.globs.push(path);
                    return;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        self.named.insert(path.clone());
        if let Some(name) = alias.or_else(|| path.last().cloned()) {
            self.imports.insert(name, path);
        }
    }
}

/// The items of a file or a block, without their attributes, and without those that are for tests alone. What isn't an
/// item, such as statements, comes in pieces of some kind.
fn items(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    const ENDED_BY_SEMICOLON: [&str; 5] = ["use", "static", "type", "const", "let"];
    let (mut all, mut item) = (Vec::new(), Vec::new());
    let (mut is_test, mut needs_semicolon) = (false, false);
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_punct(Some(&token), '#') {
            let is_inner = tokens.next_if(|token| is_punct(Some(token), '!')).is_some();
            if let Some(TokenTree::Group(attribute)) = tokens.next_if(|token| bracketed(token).is_some()) {
                is_test |= !is_inner && attribute.stream().to_string().replace(' ', "") == "cfg(test)";
                continue;
            }
        }
        match word(&token).as_deref() {
            Some("fn" | "mod" | "unsafe" | "extern") => needs_semicolon = false,
            Some(word) if !needs_semicolon => needs_semicolon = ENDED_BY_SEMICOLON.contains(&word),
            _ => {}
        }
        let is_brace = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let ends = is_punct(Some(&token), ';') || is_brace && !needs_semicolon;
        item.push(token);
        if ends {
            if !is_test {
                all.push(std::mem::take(&mut item));
            }
            item.clear();
            (is_test, needs_semicolon) = (false, false);
        }
    }
    if !is_test && !item.is_empty() {
        all.push(item);
    }
    all
}

/// The module that an item declares, and its body where that stands here.
fn declared_module(item: &[TokenTree]) -> Option<(String, Option<&Group>)> {
    let at = item.iter().position(|token| word(token).is_some_and(|word| word == "mod"))?;
    let [TokenTree::Ident(declared), end] = &item[at + 1..] else { return None };
    let is_declaration = item[..at].iter().all(|token| !is_punct(Some(token), '!') && !is_punct(Some(token), '='));
    match end {
        TokenTree::Group(body) => is_declaration.then(|| (name(declared), Some(body))),
        _ => is_declaration.then(|| (name(declared), None)),
    }
}

fn name(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(name(ident)),
        _ => None,
    }
}

fn bracketed(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some(group),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    is_punct(tokens.first(), ':') && is_punct(tokens.get(1), ':')
}
