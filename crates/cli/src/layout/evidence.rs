//! All that a server says of its layout, for one that was lost or may have been: the register and its copy, the keyfolds
//! before it, whose data is there, and the codec slots that are recorded.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use keyfold_core::change::{Connection, Owner, Register, Standing};
use keyfold_core::codec::Codecs;
use keyfold_core::layout::{Found, Heads, Layout, LayoutFile};
use keyfold_core::placement::name::Stem;
use keyfold_server::Server;
use keyfold_server::layout::stored;
use keyfold_server::secrets;

use super::{heads, slots};

/// How long keyfolds that run have to put back a layout which they serve.
const PUT_BACK_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Stems that an error names.
const NAMED: usize = 5;

/// What was found.
pub(crate) struct Evidence {
    pub(crate) register: Register,
    /// The connections of keyfolds that serve.
    pub(crate) keyfolds: usize,
    pub(crate) heads: Heads,
    pub(crate) slots: BTreeMap<Stem, Codecs>,
}

/// A layout that a person gives.
pub(crate) enum Given {
    /// A file, as for `keyfold fold`.
    File(LayoutFile),
    /// The stored form, as `keyfold layout show --toml` prints it.
    Stored(Box<Layout>),
}

/// What is to be in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What is in force already.
    InForce(Layout),
    /// This, from the half of the register that is left.
    Half(Layout),
    /// This, as the two halves of the register differ.
    Parted(Layout),
    /// This, as a person gave it, over the data that is there.
    Given(Layout),
    /// Nothing: there was no layout, and there is no data.
    Fresh,
}

impl Evidence {
    /// Looks. Where the register says nothing and keyfolds run, they are given the time to put it back first.
    pub(crate) fn gather(server: &mut Server) -> anyhow::Result<Self> {
        let began = Instant::now();
        let (register, keyfolds) = loop {
            let register = stored::register(server)?;
            let keyfolds = count_keyfolds(server);
            let is_whole =
                matches!(register.standing(secrets::given()), Standing::InForce(_) | Standing::OtherVersion(_));
            if is_whole || keyfolds == 0 || began.elapsed() > PUT_BACK_WITHIN {
                break (register, keyfolds);
            }
            thread::sleep(LOOK_EVERY);
        };
        Ok(Self { register, keyfolds, heads: heads::walk(server)?, slots: slots::recorded(server)? })
    }

    /// What is to be in force, by all that was found.
    ///
    /// # Errors
    /// Nobody can tell: there is data that no layout reads, or the layout is one that this keyfold can't read.
    pub(crate) fn judge(&mut self, server: &mut Server, given: Option<&Given>) -> anyhow::Result<Verdict> {
        let verdict = match self.register.standing(secrets::given()) {
            Standing::InForce(layout) => Verdict::InForce(layout),
            Standing::Half(layout) => Verdict::Half(layout),
            Standing::Parted(layout) => Verdict::Parted(layout),
            Standing::Unclear(why) => bail!(
                "keyfold:{{home}}:layout and keyfold:{{home}}:layout:copy differ, and {why}; restore both from one backup, or SET both to \
                 what `keyfold layout show --toml` printed of the layout that the data lies by"
            ),
            Standing::OtherVersion(why) => {
                bail!(
                    "another version of keyfold wrote the server's layout, or it takes a secret; it is left as it is: {why}"
                )
            }
            Standing::Lost(_) => match given.filter(|_| !self.heads.is_empty()) {
                Some(given) => {
                    slots::complete(server, &self.heads, &mut self.slots)?;
                    Verdict::Given(given.over(&self.heads, &self.slots))
                }
                None => Verdict::Fresh,
            },
        };
        let unaccounted = self.unaccounted(verdict.layout());
        if unaccounted.is_empty() {
            return Ok(verdict);
        }
        bail!("{}", show_unaccounted(server, &unaccounted, verdict.layout().is_some()))
    }

    /// The data that a layout doesn't read.
    pub(crate) fn unaccounted(&self, layout: Option<&Layout>) -> Vec<(Stem, &Found)> {
        self.heads.unaccounted(layout.unwrap_or(&Layout::default()))
    }
}

fn show_unaccounted(server: &Server, unaccounted: &[(Stem, &Found)], has_layout: bool) -> String {
    let lines: Vec<String> = unaccounted.iter().take(NAMED).map(|(stem, found)| found.line(*stem)).collect();
    let more = unaccounted.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let what = if has_layout {
        "holds folded keys that the layout doesn't name"
    } else {
        "holds folded keys, and its layout is lost"
    };
    format!(
        "the server at {} {what}:\n  {}{more}\nNothing is served or changed until a layout accounts for them: `keyfold \
         layout recover {} --layout FILE` takes the file they were folded by, or what `keyfold layout show --toml` \
         printed. DEL what nobody needs",
        server.address(),
        lines.join("\n  "),
        server.address(),
    )
}

impl Given {
    /// The layout by which the data that is there is found.
    fn over(&self, heads: &Heads, slots: &BTreeMap<Stem, Codecs>) -> Layout {
        match self {
            Self::File(file) => file.over(heads, slots),
            Self::Stored(layout) => layout.put_back().with_recorded(slots),
        }
    }
}

impl Verdict {
    /// The layout that is to be in force, where there is one.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        match self {
            Self::InForce(layout) | Self::Half(layout) | Self::Parted(layout) | Self::Given(layout) => Some(layout),
            Self::Fresh => None,
        }
    }
}

/// How many connections of keyfolds there are; none where the server doesn't show them.
pub(crate) fn count_keyfolds(server: &mut Server) -> usize {
    let list: String = server.ask(&[b"CLIENT", b"LIST"]).unwrap_or_default();
    let connections = Connection::read_all(&list, None);
    connections.iter().filter(|connection| matches!(connection.owner, Owner::Member(_))).count()
}
