//! CLIENT TRACKING's options, and what a client has chosen by them. The checks, their order and the errors are those of
//! Redis 7.0 (`clientCommand` and `checkPrefixCollisionsOrReply`).

use std::collections::BTreeSet;

use crate::number::parse_integer;
use crate::resp::Answer;
use crate::resp::word::{c_text, is_word};

/// Which of the keys that it reads a client is told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All.
    #[default]
    All,
    /// OPTIN: those of a command behind CLIENT CACHING YES.
    OptIn,
    /// OPTOUT: all but those of a command behind CLIENT CACHING NO.
    OptOut,
}

/// What a client has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// The client that is told in its place; 0 for none.
    pub(crate) redirect: u64,
    /// BCAST: it is told of all keys that begin so, whoever reads them.
    pub(crate) broadcast: Option<BTreeSet<Vec<u8>>>,
    pub(crate) choice: Choice,
    /// It doesn't want to be told of what it has written itself.
    pub(crate) noloop: bool,
    /// CLIENT CACHING was said, and concerns the next command.
    pub(crate) caching: bool,
    /// The client that is told in its place was gone when there was something to tell.
    pub(crate) broken: bool,
}

/// The options of one CLIENT TRACKING, each well written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    redirect: u64,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    noloop: bool,
    prefixes: Vec<Vec<u8>>,
}

impl Options {
    /// Reads what stands behind ON or OFF. `exists` says whether there is a client of an id.
    pub(crate) fn parse(args: &[&[u8]], exists: impl Fn(u64) -> bool) -> Result<Self, &'static str> {
        let mut options = Self::default();
        let mut rest = args;
        while let Some((word, more)) = rest.split_first() {
            rest = more;
            match more.split_first() {
                Some((id, more)) if is_word(word, "redirect") => {
                    if options.redirect != 0 {
                        return Err("ERR A client can only redirect to a single other client");
                    }
                    let id = parse_integer(id).ok_or("ERR value is not an integer or out of range")?;
                    let id = u64::try_from(id).ok().filter(|id| exists(*id));
                    options.redirect = id.ok_or("ERR The client ID you want redirect to does not exist")?;
                    rest = more;
                }
                Some((prefix, more)) if is_word(word, "prefix") => {
                    options.prefixes.push(prefix.to_vec());
                    rest = more;
                }
                _ if is_word(word, "bcast") => options.broadcast = true,
                _ if is_word(word, "optin") => options.opt_in = true,
                _ if is_word(word, "optout") => options.opt_out = true,
                _ if is_word(word, "noloop") => options.noloop = true,
                _ => return Err("ERR syntax error"),
            }
        }
        Ok(options)
    }

    /// What a client has chosen that says ON with these options, and had chosen `before`.
    pub(crate) fn switch_on(self, before: Option<&Mode>) -> Result<Mode, String> {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
        }
        if before.is_some_and(|before| before.broadcast.is_some() != self.broadcast) {
            return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                        re-enabling it with a different mode."
                .into());
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
        }
        let choice = match (self.opt_in, self.opt_out) {
            (true, true) => return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into()),
            (true, false) => Choice::OptIn,
            (false, true) => Choice::OptOut,
            (false, false) => Choice::All,
        };
        let was = before.map_or(Choice::All, |before| before.choice);
        if choice != Choice::All && was != Choice::All && choice != was {
            return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                        re-enabling it with a different mode."
                .into());
        }
        let broadcast = match self.broadcast {
            true => Some(self.prefixes(before.and_then(|before| before.broadcast.as_ref()))?),
            false => None,
        };
        let caching = before.is_some_and(|before| before.caching);
        Ok(Mode { redirect: self.redirect, broadcast, choice, noloop: self.noloop, caching, broken: false })
    }

    /// All prefixes: those that there were and those that are named, of which none may begin with another.
    fn prefixes(&self, before: Option<&BTreeSet<Vec<u8>>>) -> Result<BTreeSet<Vec<u8>>, String> {
        let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        let mut all = before.cloned().unwrap_or_default();
        for (at, prefix) in self.prefixes.iter().enumerate() {
            if let Some(known) = before.into_iter().flatten().find(|known| overlap(known, prefix)) {
                return Err(overlapping(prefix, "an existing", known));
            }
            if let Some(other) = self.prefixes[at + 1..].iter().find(|other| overlap(other, prefix)) {
                return Err(overlapping(prefix, "another provided", other));
            }
        }
        match self.prefixes.is_empty() {
            true => all.extend([Vec::new()]),
            false => all.extend(self.prefixes.iter().cloned()),
        }
        Ok(all)
    }
}

fn overlapping(prefix: &[u8], which: &str, other: &[u8]) -> String {
    let (prefix, other) = (String::from_utf8_lossy(c_text(prefix)), String::from_utf8_lossy(c_text(other)));
    format!(
        "ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. Prefixes for a single client must not overlap."
    )
}

impl Mode {
    /// Whether what the next command reads is remembered for the client.
    pub(crate) fn remembers(&self) -> bool {
        self.broadcast.is_none()
            && match self.choice {
                Choice::All => true,
                Choice::OptIn => self.caching,
                Choice::OptOut => !self.caching,
            }
    }

    /// CLIENT CACHING YES or NO of a client that has chosen this, or nothing.
    pub(crate) fn set_caching(mode: Option<&mut Self>, word: &[u8]) -> Result<(), &'static str> {
        let Some(mode) = mode else {
            return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
                        OPTOUT mode enabled");
        };
        mode.caching = match mode.choice {
            Choice::OptIn if is_word(word, "yes") => true,
            Choice::OptOut if is_word(word, "no") => true,
            _ if is_word(word, "yes") => {
                return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
            }
            _ if is_word(word, "no") => {
                return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
            }
            _ => return Err("ERR syntax error"),
        };
        Ok(())
    }

    /// CLIENT GETREDIR of a client that has chosen this, or nothing.
    pub(crate) fn shown_redirect(mode: Option<&Self>) -> i64 {
        mode.map_or(-1, |mode| i64::try_from(mode.redirect).unwrap_or(i64::MAX))
    }

    /// CLIENT TRACKINGINFO of a client that has chosen this, or nothing.
    pub(crate) fn write_info(mode: Option<&Self>, answer: &mut Answer<'_>) {
        let mut flags = vec![if mode.is_some() { "on" } else { "off" }];
        if let Some(mode) = mode {
            flags.extend(mode.broadcast.is_some().then_some("bcast"));
            flags.extend(match (mode.choice, mode.caching) {
                (Choice::All, _) => &[][..],
                (Choice::OptIn, false) => &["optin"],
                (Choice::OptIn, true) => &["optin", "caching-yes"],
                (Choice::OptOut, false) => &["optout"],
                (Choice::OptOut, true) => &["optout", "caching-no"],
            });
            flags.extend(mode.noloop.then_some("noloop"));
            flags.extend(mode.broken.then_some("broken_redirect"));
        }
        answer.map(3);
        answer.bulk(b"flags");
        answer.set(flags.len());
        flags.iter().for_each(|flag| answer.bulk(flag.as_bytes()));
        answer.bulk(b"redirect");
        answer.integer(Self::shown_redirect(mode));
        answer.bulk(b"prefixes");
        let prefixes = mode.and_then(|mode| mode.broadcast.as_ref());
        answer.array(prefixes.map_or(0, BTreeSet::len));
        prefixes.into_iter().flatten().for_each(|prefix| answer.bulk(prefix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(text: &str, before: Option<&Mode>) -> Result<Mode, String> {
        let args: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        Options::parse(&args, |id| id == 7)?.switch_on(before)
    }

    #[test]
    fn options_contradict_one_another_as_in_the_server() {
        for (text, error) in [
            ("FOO", "syntax error"),
            ("PREFIX", "syntax error"),
            ("REDIRECT", "syntax error"),
            ("REDIRECT x", "value is not an integer or out of range"),
            ("REDIRECT 0", "The client ID you want redirect to does not exist"),
            ("REDIRECT -7", "The client ID you want redirect to does not exist"),
            ("REDIRECT 7 REDIRECT 7", "A client can only redirect to a single other client"),
            ("PREFIX a", "PREFIX option requires BCAST mode to be enabled"),
            ("BCAST OPTIN", "OPTIN and OPTOUT are not compatible with BCAST"),
            ("OPTIN OPTOUT", "You can't specify both OPTIN mode and OPTOUT mode"),
            (
                "BCAST PREFIX ab PREFIX b PREFIX a",
                "Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a single client must not overlap.",
            ),
        ] {
            assert_eq!(switch(text, None), Err(format!("ERR {error}")), "{text}");
        }
    }

    #[test]
    fn modes_are_changed_as_in_the_server() {
        let plain = switch("noloop Redirect 7", None).unwrap();
        assert_eq!((plain.redirect, plain.noloop, plain.remembers()), (7, true, true));
        assert!(switch("BCAST", Some(&plain)).is_err_and(|error| error.contains("switch BCAST mode on/off")));
        let opt_in = switch("OPTIN", Some(&plain)).unwrap();
        assert!(!opt_in.noloop && opt_in.redirect == 0 && !opt_in.remembers());
        assert!(switch("OPTOUT", Some(&opt_in)).is_err_and(|error| error.contains("switch OPTIN/OPTOUT mode")));
        assert_eq!(switch("", Some(&opt_in)).unwrap().choice, Choice::All);
        let broadcast = switch("BCAST PREFIX user: PREFIX cart:", None).unwrap();
        let more = switch("BCAST PREFIX x", Some(&broadcast)).unwrap();
        assert_eq!(more.broadcast.map(|prefixes| prefixes.len()), Some(3));
        assert!(
            switch("BCAST PREFIX user:1", Some(&broadcast))
                .is_err_and(|error| { error.contains("'user:1' overlaps with an existing prefix 'user:'") })
        );
        assert!(!broadcast.remembers(), "all readers' keys are remembered for it");
    }

    #[test]
    fn caching_concerns_the_mode_that_it_is_for() {
        let mut opt_in = switch("OPTIN", None).unwrap();
        assert!(Mode::set_caching(Some(&mut opt_in), b"no").is_err_and(|error| error.contains("OPTOUT mode.")));
        assert_eq!(Mode::set_caching(Some(&mut opt_in), b"x"), Err("ERR syntax error"));
        assert_eq!(Mode::set_caching(Some(&mut opt_in), b"YES"), Ok(()));
        assert!(opt_in.remembers());
        let mut opt_out = switch("OPTOUT", None).unwrap();
        assert!(opt_out.remembers());
        assert_eq!(Mode::set_caching(Some(&mut opt_out), b"no"), Ok(()));
        assert!(!opt_out.remembers());
        assert!(Mode::set_caching(None, b"yes").is_err());
    }
}
