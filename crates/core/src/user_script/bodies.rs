//! The scripts that clients have made known, by EVAL and SCRIPT LOAD. A server knows them too, as they came; keyfold has to
//! know what it wraps.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sha1::{Digest, Sha1};

use super::text::{self, Prelude};
use crate::notify::Notices;

/// So many bytes of scripts are kept at most; those that were not used for longest go first.
const MOST_BYTES: usize = 16 << 20;
/// What an entry takes beside its script.
const ENTRY_BYTES: usize = 512;

/// A hash in hex, in small letters, as servers name scripts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha([u8; 40]);

impl Sha {
    pub(super) fn of(text: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(text)) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        Self(hex)
    }

    /// Reads it in letters of either size; none where it has another length.
    fn parse(text: &[u8]) -> Option<Self> {
        text.to_ascii_lowercase().try_into().ok().map(Self)
    }

    /// The 40 digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// A user's script, or one of a library's functions.
#[derive(Debug)]
pub struct UserScript {
    /// By which the user calls it. Of a function that of its library.
    pub sha: Sha,
    /// Of a function its library.
    body: Arc<[u8]>,
    function: Option<Function>,
    /// The server has `server` beside `redis`.
    has_server: bool,
    /// By whether sets or hashes are among its keys.
    wrapped_sha: [OnceLock<Sha>; 2],
    obstacle: OnceLock<Option<&'static str>>,
    /// What is published of what it does.
    notices: Option<Notices>,
    /// The same script with other notices, which was asked for last.
    publishing: Mutex<Option<Arc<UserScript>>>,
}

/// What a server says of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name, as it was registered.
    pub(crate) name: Vec<u8>,
    /// Its flags, in order.
    pub(crate) flags: Vec<Vec<u8>>,
    /// Whether it is written in Lua; modules have other engines.
    pub(crate) is_lua: bool,
}

impl UserScript {
    /// The script with this text, before a server that has `server` beside `redis` or not.
    pub(crate) fn new(body: &[u8], has_server: bool) -> Self {
        Self::with(Sha::of(body), body.into(), None, has_server)
    }

    /// A function of the library with this text and its hash.
    pub(super) fn of_library(sha: Sha, code: Arc<[u8]>, function: Function, has_server: bool) -> Self {
        Self::with(sha, code, Some(function), has_server)
    }

    fn with(sha: Sha, body: Arc<[u8]>, function: Option<Function>, has_server: bool) -> Self {
        let (wrapped_sha, obstacle) = (Default::default(), OnceLock::new());
        let (notices, publishing) = (None, Mutex::default());
        Self { sha, body, function, has_server, wrapped_sha, obstacle, notices, publishing }
    }

    /// What it is as a function; none for a script.
    pub(crate) fn function(&self) -> Option<&Function> {
        self.function.as_ref()
    }

    /// The same script where this is published of what it does.
    pub(crate) fn publishing(self: &Arc<Self>, notices: Option<Notices>) -> Arc<Self> {
        if notices == self.notices {
            return Arc::clone(self);
        }
        let mut kept = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref().filter(|script| script.notices == notices) {
            Some(script) => Arc::clone(script),
            None => {
                let same = Self::with(self.sha, Arc::clone(&self.body), self.function.clone(), self.has_server);
                Arc::clone(kept.insert(Arc::new(Self { notices, ..same })))
            }
        }
    }

    /// Its text.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The text that is sent in its place where its keys are folded; of these sets or hashes only where it `has_collections`.
    pub fn wrapped(&self, has_collections: bool) -> Vec<u8> {
        let prelude = Prelude { has_collections, notices: self.notices };
        match &self.function {
            Some(function) => text::wrapped_library(&self.body, &function.flags, self.has_server, prelude),
            None => text::wrapped(&self.body, self.has_server, prelude),
        }
    }

    /// The hash of that text.
    pub fn wrapped_sha(&self, has_collections: bool) -> Sha {
        *self.wrapped_sha[usize::from(has_collections)].get_or_init(|| Sha::of(&self.wrapped(has_collections)))
    }

    /// The hashes of those of its texts that were sent.
    pub(crate) fn wrapped_shas(&self) -> impl Iterator<Item = Sha> {
        self.wrapped_sha.iter().filter_map(OnceLock::get).copied()
    }

    /// Whether its first line, or what a function was registered with, says that it writes nothing.
    pub fn says_no_writes(&self) -> bool {
        if let Some(function) = &self.function {
            return function.flags.iter().any(|flag| flag == b"no-writes");
        }
        let line = self.body.split(|byte| *byte == b'\n').next().unwrap_or_default();
        line.starts_with(b"#!") && memchr::memmem::find(line, b"no-writes").is_some()
    }

    /// Whether it has a first line for the server and nothing behind it, which is an error of its own.
    pub fn is_first_line_alone(&self) -> bool {
        self.body.starts_with(b"#!") && !self.body.contains(&b'\n')
    }

    /// What of it can't be carried out on folded keys, because it goes past the names that a script has.
    pub fn obstacle(&self) -> Option<&'static str> {
        *self.obstacle.get_or_init(|| text::obstacle(&self.body))
    }

    /// The error of one that can't be carried out for that reason.
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.function.as_ref().is_some_and(|function| !function.is_lua) {
            return Some("ERR keyfold: a function on folded keys must be of the engine LUA".to_owned());
        }
        let name = self.obstacle()?;
        let what = if self.function.is_some() { "function" } else { "script" };
        Some(format!(
            "ERR keyfold: a {what} on folded keys can't use {name}, which may reach past them; call redis by its name"
        ))
    }
}

/// The scripts that one keyfold knows. Bounded: what is forgotten is answered NOSCRIPT, and sent again by the client.
#[derive(Debug, Default)]
pub struct Scripts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    scripts: HashMap<Sha, (Arc<UserScript>, u64)>,
    /// By when they were used last.
    order: BTreeMap<u64, Sha>,
    uses: u64,
    bytes: usize,
}

impl Scripts {
    /// Gets to know a script, before a server that has `server` beside `redis` or not.
    pub fn note(&self, body: &[u8], has_server: bool) -> Arc<UserScript> {
        let sha = Sha::of(body);
        let mut known = self.lock();
        if let Some(script) = known.find(sha) {
            return script;
        }
        let script = Arc::new(UserScript::new(body, has_server));
        known.insert(Arc::clone(&script));
        script
    }

    /// The script that EVALSHA names so.
    pub fn find(&self, sha: &[u8]) -> Option<Arc<UserScript>> {
        self.lock().find(Sha::parse(sha)?)
    }

    /// Forgets all, as SCRIPT FLUSH does.
    pub fn forget_all(&self) {
        *self.lock() = Known::default();
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&mut self, sha: Sha) -> Option<Arc<UserScript>> {
        let (script, used) = self.scripts.get_mut(&sha)?;
        self.uses += 1;
        self.order.remove(used);
        self.order.insert(self.uses, sha);
        *used = self.uses;
        Some(Arc::clone(script))
    }

    fn insert(&mut self, script: Arc<UserScript>) {
        self.uses += 1;
        self.bytes += script.body.len() + ENTRY_BYTES;
        self.order.insert(self.uses, script.sha);
        self.scripts.insert(script.sha, (script, self.uses));
        while self.bytes > MOST_BYTES && self.scripts.len() > 1 {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            if let Some((script, _)) = self.scripts.remove(&oldest) {
                self.bytes -= script.body.len() + ENTRY_BYTES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_its_hash_in_letters_of_either_size() {
        let scripts = Scripts::default();
        let noted = scripts.note(b"return 1", false);
        assert_eq!(noted.sha.as_bytes(), b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert!(Arc::ptr_eq(&noted, &scripts.find(&noted.sha.as_bytes().to_ascii_uppercase()).unwrap()));
        assert!(Arc::ptr_eq(&noted, &scripts.note(b"return 1", false)));
        assert!(scripts.find(b"e0e1").is_none());
        scripts.forget_all();
        assert!(scripts.find(noted.sha.as_bytes()).is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let scripts = Scripts::default();
        let body = |number: usize| [format!("return {number} --").into_bytes(), vec![b'x'; MOST_BYTES / 8]].concat();
        let shas: Vec<Sha> = (0..7).map(|number| scripts.note(&body(number), false).sha).collect();
        assert!(scripts.find(shas[0].as_bytes()).is_some());
        let last = scripts.note(&body(7), false).sha;
        let is_known: Vec<bool> =
            shas.iter().chain([&last]).map(|sha| scripts.find(sha.as_bytes()).is_some()).collect();
        assert_eq!(is_known, [true, false, true, true, true, true, true, true]);
    }

    #[test]
    fn what_is_sent_has_a_hash_of_its_own() {
        let script = Scripts::default().note(b"return 1", false);
        for has_collections in [false, true] {
            assert_eq!(script.wrapped_sha(has_collections), Sha::of(&script.wrapped(has_collections)));
        }
        assert_ne!(script.wrapped_sha(false), script.sha);
        assert_ne!(script.wrapped_sha(false), script.wrapped_sha(true));
    }
}
