//! What a layout says of a cache: how much memory it may take, by which policy keys leave, and which may leave at all.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::error::{LayoutError, Problem};
use super::reader::Reader;
use crate::byte_size;
use toml::Spanned;

/// How a cache is kept within its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// By what it is chosen which keys leave.
    pub policy: CachePolicy,
    /// From how much memory of a server on keys leave.
    pub max_memory: MaxMemory,
    /// Whether plain keys leave too, as far as clients come through keyfold.
    pub plain_keys: bool,
}

/// By what it is chosen which keys leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// Those that were asked for least often lately, for what they take; new ones have time to be asked for.
    #[default]
    TinyLfu,
}

impl FromStr for CachePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tinylfu" => Ok(Self::TinyLfu),
            _ => Err("there is \"tinylfu\"".to_owned()),
        }
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TinyLfu => f.write_str("tinylfu"),
        }
    }
}

/// From how much memory on keys leave: of each server, or of each primary of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxMemory {
    /// So many bytes of `used_memory`, without what the server doesn't count either (`mem_not_counted_for_evict`).
    Bytes(u64),
    /// So much of the server's own `maxmemory`, in percent.
    Percent(u8),
}

impl MaxMemory {
    /// From how many bytes on keys leave a server that has this `maxmemory`; none where that can't be said, as it has none.
    pub fn mark(self, server_max_bytes: u64) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(_) if server_max_bytes == 0 => None,
            Self::Percent(percent) => Some(server_max_bytes / 100 * u64::from(percent)),
        }
    }
}

impl FromStr for MaxMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WANTED: &str = "write bytes with b, kb, mb or gb, as 4gb, or a share of the server's maxmemory, as 90%";
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
            return percent.map(Self::Percent).ok_or_else(|| WANTED.to_owned());
        }
        byte_size::parse(text).map(Self::Bytes).ok_or_else(|| WANTED.to_owned())
    }
}

impl fmt::Display for MaxMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => f.write_str(&byte_size::shown(bytes)),
        }
    }
}

/// Whether keys of a namespace leave where memory is short, and how dear they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evictable {
    /// Which of them may leave.
    pub which: Evict,
    /// How many times as much they count as other keys that are asked for as often, in thousandths.
    pub weight_thousandths: u32,
}

impl Default for Evictable {
    fn default() -> Self {
        Self { which: Evict::Any, weight_thousandths: 1000 }
    }
}

impl Evictable {
    /// How many times as much its keys count as other keys that are asked for as often.
    pub fn weight(self) -> f64 {
        f64::from(self.weight_thousandths) / 1000.0
    }

    /// The lines of a layout file that say so; none where nothing has to be said.
    pub(super) fn lines(self) -> String {
        let which = match self.which {
            Evict::Any => "",
            Evict::Expiring => "evict = \"expiring\"\n",
            Evict::Never => "evict = false\n",
        };
        let weight = match self.weight_thousandths {
            1000 => String::new(),
            _ => format!("weight = {:?}\n", self.weight()),
        };
        format!("{which}{weight}")
    }
}

/// Which keys of a namespace may leave a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evict {
    /// All of them.
    #[default]
    Any,
    /// Those that have an expiry.
    Expiring,
    /// None.
    Never,
}

impl CacheRules {
    /// The table of a layout file that says so.
    pub(super) fn table(self) -> String {
        let Self { policy, max_memory, plain_keys } = self;
        let plain_keys = if plain_keys { "plain_keys = true\n" } else { "" };
        format!("[cache]\npolicy = \"{policy}\"\nmax_memory = \"{max_memory}\"\n{plain_keys}")
    }
}

/// `[cache]`, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheEntry {
    policy: Option<Spanned<String>>,
    max_memory: Spanned<String>,
    #[serde(default)]
    plain_keys: bool,
}

/// `evict`: whether, or which.
#[derive(Deserialize)]
#[serde(untagged, expecting = "true, false or \"expiring\"")]
pub(super) enum EvictEntry {
    All(bool),
    Which(String),
}

impl Reader<'_> {
    /// What `[cache]` says.
    pub(super) fn cache(&self, entry: CacheEntry) -> Result<CacheRules, LayoutError> {
        fn parse<T: FromStr<Err = String>>(
            reader: &Reader<'_>,
            field: &'static str,
            said: &Spanned<String>,
        ) -> Result<T, LayoutError> {
            let given = said.get_ref().clone();
            said.get_ref().parse().map_err(|wanted| reader.error(&said.span(), Problem::Cache { field, given, wanted }))
        }
        Ok(CacheRules {
            policy: entry.policy.map_or(Ok(CachePolicy::default()), |policy| parse(self, "policy", &policy))?,
            max_memory: parse(self, "max_memory", &entry.max_memory)?,
            plain_keys: entry.plain_keys,
        })
    }

    /// What `evict` and `weight` of a namespace say.
    pub(super) fn evictable(
        &self,
        evict: Option<Spanned<EvictEntry>>,
        weight: Option<Spanned<f64>>,
    ) -> Result<Evictable, LayoutError> {
        let which = match evict.map(|evict| (evict.span(), evict.into_inner())) {
            None | Some((_, EvictEntry::All(true))) => Evict::Any,
            Some((_, EvictEntry::All(false))) => Evict::Never,
            Some((_, EvictEntry::Which(which))) if which == "expiring" => Evict::Expiring,
            Some((span, EvictEntry::Which(given))) => {
                let wanted = "there are true, false and \"expiring\"".to_owned();
                return Err(self.error(&span, Problem::Cache { field: "evict", given, wanted }));
            }
        };
        let Some(weight) = weight else { return Ok(Evictable { which, ..Evictable::default() }) };
        let given = *weight.get_ref();
        if !(0.001..=1000.0).contains(&given) {
            let wanted = "a weight is 0.001 to 1000.0".to_owned();
            let given = given.to_string();
            return Err(self.error(&weight.span(), Problem::Cache { field: "weight", given, wanted }));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds above")]
        let weight_thousandths = (given * 1000.0).round() as u32;
        Ok(Evictable { which, weight_thousandths })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, LayoutFile};
    use super::*;

    const FILE: &str = "[cache]\npolicy = \"tinylfu\"\nmax_memory = \"4gb\"\nplain_keys = true\n\n[[namespace]]\n\
                        keys = 'page:{id:int}'\nbucket = { span = 128 }\nevict = \"expiring\"\nweight = 2.5\n\
                        [[namespace]]\nkeys = 'cart:{id:int}'\nbucket = { span = 128 }\nevict = false\n\
                        [[namespace]]\nkeys = 'tag:{id:int}'\nbucket = { span = 128 }\n";

    #[test]
    fn a_file_says_how_a_cache_is_kept_and_the_server_keeps_it() {
        let layout = Layout::parse_file(FILE).unwrap();
        let rules = layout.cache().unwrap();
        assert_eq!((rules.max_memory, rules.plain_keys), (MaxMemory::Bytes(4 << 30), true));
        let evictable: Vec<_> = layout.namespaces().iter().map(|namespace| namespace.evictable).collect();
        assert_eq!(
            evictable.iter().map(|one| one.which).collect::<Vec<_>>(),
            [Evict::Expiring, Evict::Never, Evict::Any]
        );
        assert_eq!(evictable.iter().map(|one| one.weight()).collect::<Vec<_>>(), [2.5, 1.0, 1.0]);
        assert_eq!(Layout::from_stored(&layout.to_stored()).unwrap(), layout);
        assert_eq!(Layout::parse_file(&layout.to_file()).unwrap().to_file(), layout.to_file());
        assert_eq!(layout.put_back().cache(), layout.cache());
    }

    #[test]
    fn a_file_that_changes_the_cache_makes_a_new_epoch() {
        let stored = Layout::parse_file(FILE).unwrap();
        let merge = |text: &str| Layout::merge(Some(&stored), &LayoutFile::parse(text).unwrap()).unwrap();
        assert_eq!(merge(FILE).layout, stored);
        let other = merge(&FILE.replace("4gb", "90%"));
        assert_eq!(other.layout.epoch(), stored.epoch().next());
        assert_eq!(other.layout.cache().unwrap().max_memory, MaxMemory::Percent(90));
        assert!(other.changed.is_empty() && merge(&FILE.replace("false", "true")).changed.len() == 1);
        let without = FILE.split_once("\n\n").unwrap().1;
        assert_eq!(merge(without).layout.cache(), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_what_there_is() {
        let wrong = |from: &str, to: &str| LayoutFile::parse(&FILE.replace(from, to)).unwrap_err().to_string();
        for (from, to, told) in [
            ("4gb", "4 apples", "`max_memory = \"4 apples\"`: write bytes with b, kb, mb or gb"),
            ("4gb", "101%", "`max_memory = \"101%\"`: write bytes"),
            ("4gb", "0", "`max_memory = \"0\"`: write bytes"),
            ("\"tinylfu\"", "\"lru\"", "`policy = \"lru\"`: there is \"tinylfu\""),
            ("\"expiring\"", "\"never\"", "`evict = \"never\"`: there are true, false and \"expiring\""),
            ("2.5", "0.0", "`weight = \"0\"`: a weight is 0.001 to 1000.0"),
        ] {
            let error = wrong(from, to);
            assert!(error.contains(told), "{error}");
        }
        assert!(wrong("plain_keys", "plain").contains("unknown field `plain`"));
    }

    #[test]
    fn sizes_are_shown_as_they_are_typed() {
        for text in ["4gb", "100mb", "3kb", "1500", "90%"] {
            assert_eq!(text.parse::<MaxMemory>().unwrap().to_string(), text);
        }
    }
}
