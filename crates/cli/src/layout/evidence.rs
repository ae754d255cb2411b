//! All that servers say of a layout, for one that was lost or may have been: the register and its copy, the witnesses of a
//! cluster, the keyfolds before them, whose data is there, and the codec slots that are recorded.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use keyfold_core::change::{Connection, Owner, Register, Standing};
use keyfold_core::codec::Codecs;
use keyfold_core::layout::{Found, Heads, Layout, LayoutFile, Revision};
use keyfold_core::placement::name::Stem;
use keyfold_server::layout::stored;
use keyfold_server::layout::witnesses::{self, Witness};
use keyfold_server::secrets;
use keyfold_server::{Nodes, Server};

use super::{heads, slots, writer};

/// How long keyfolds that run have to put back a layout which they serve.
const PUT_BACK_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Stems that an error names.
const NAMED: usize = 5;

/// What was found.
pub(crate) struct Evidence {
    pub(crate) register: Register,
    /// What the witnesses of a cluster hold.
    pub(crate) witnesses: Vec<Witness>,
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
    /// This, as witnesses know of a newer layout than the register says: that was set back, or lost.
    Witnessed(Layout),
    /// This, as a person gave it, over the data that is there.
    Given(Layout),
    /// Nothing: there was no layout, and there is no data.
    Fresh,
}

/// The layout in force; none where nothing is folded here.
///
/// # Errors
/// The layout can't be read, or there is none for the folded keys that are there: without one they pass for plain hashes.
pub(crate) fn layout_in_force(nodes: &mut Nodes) -> anyhow::Result<Option<Layout>> {
    if let Some(stored) = stored::read(nodes.home())? {
        return Ok(Some(stored.layout));
    }
    // Of one server too, as a keyfold that runs may put it back just now.
    let verdict = Evidence::gather_all(nodes)?.judge(nodes.servers(), None)?;
    if !matches!(verdict, Verdict::InForce(_) | Verdict::Fresh) {
        let address = nodes.home().address();
        bail!("the layout was lost; `keyfold layout recover {address}` says what is there, and restores it");
    }
    Ok(stored::read(nodes.home())?.map(|stored| stored.layout))
}

impl Evidence {
    /// Looks. Where the register says nothing and keyfolds run, they are given the time to put it back first.
    pub(crate) fn gather(server: &mut Server) -> anyhow::Result<Self> {
        let began = Instant::now();
        let (register, keyfolds) = loop {
            let register = stored::register(server)?;
            let keyfolds = count_keyfolds(server);
            if is_whole(&register) || keyfolds == 0 || began.elapsed() > PUT_BACK_WITHIN {
                break (register, keyfolds);
            }
            thread::sleep(LOOK_EVERY);
        };
        let (heads, slots) = (heads::walk([&mut *server])?, slots::recorded(server)?);
        Ok(Self { register, witnesses: Vec::new(), keyfolds, heads, slots })
    }

    /// The same of all nodes of a cluster, or of one server.
    ///
    /// # Errors
    /// A node can't be asked.
    pub(crate) fn gather_all(nodes: &mut Nodes) -> anyhow::Result<Self> {
        if !nodes.are_cluster() {
            return Self::gather(nodes.first());
        }
        let began = Instant::now();
        let (register, witnesses, keyfolds) = loop {
            // Witnesses speak of a change that is under way, and for nothing meanwhile.
            writer::wait_while_held(nodes.home())?;
            // The home is asked after the witnesses, as it is the first to know of a layout.
            let witnesses = witnesses::ask(nodes)?;
            let register = stored::register(nodes.home())?;
            let keyfolds = nodes.servers().iter_mut().map(count_keyfolds).sum();
            let is_settled = is_whole(&register) && matches!(doubt(&register, &witnesses), Ok(None));
            if is_settled || keyfolds == 0 || began.elapsed() > PUT_BACK_WITHIN {
                break (register, witnesses, keyfolds);
            }
            thread::sleep(LOOK_EVERY);
        };
        let slots = slots::recorded(nodes.home())?;
        Ok(Self { register, witnesses, keyfolds, heads: heads::walk(nodes.servers())?, slots })
    }

    /// What is to be in force, by all that was found. `servers` are those that hold the data.
    ///
    /// # Errors
    /// Nobody can tell: there is data that no layout reads, or the layout is one that this keyfold can't read.
    pub(crate) fn judge(&mut self, servers: &mut [Server], given: Option<&Given>) -> anyhow::Result<Verdict> {
        let doubt = doubt(&self.register, &self.witnesses)?;
        let verdict = match (self.register.standing(secrets::given()), doubt) {
            (Standing::InForce(home) | Standing::Half(home) | Standing::Parted(home), Some(doubt)) => {
                let united = doubt.united(&home);
                Verdict::Witnessed(
                    united.map_err(|why| anyhow!("what the home and the witnesses say differs, and {why}"))?,
                )
            }
            (Standing::Lost(_), Some(doubt)) => Verdict::Witnessed(doubt.put_back()),
            (Standing::InForce(layout), None) => Verdict::InForce(layout),
            (Standing::Half(layout), None) => Verdict::Half(layout),
            (Standing::Parted(layout), None) => Verdict::Parted(layout),
            (Standing::Unclear(why), _) => bail!(
                "keyfold:{{home}}:layout and keyfold:{{home}}:layout:copy differ, and {why}; restore both from one backup, or SET both to \
                 what `keyfold layout show --toml` printed of the layout that the data lies by"
            ),
            (Standing::OtherVersion(why), _) => {
                bail!(
                    "another version of keyfold wrote the server's layout, or it takes a secret; it is left as it is: {why}"
                )
            }
            (Standing::Lost(_), None) => match given.filter(|_| !self.heads.is_empty()) {
                Some(given) => {
                    slots::complete(servers, &self.heads, &mut self.slots)?;
                    Verdict::Given(given.over(&self.heads, &self.slots))
                }
                None => Verdict::Fresh,
            },
        };
        let unaccounted = self.unaccounted(verdict.layout());
        if unaccounted.is_empty() {
            return Ok(verdict);
        }
        bail!("{}", show_unaccounted(servers, &unaccounted, verdict.layout().is_some()))
    }

    /// The newest layout that is known to have been in force, or to have been about to be.
    pub(crate) fn newest(&self, given: Option<&Given>) -> Revision {
        let register = [&self.register.layout, &self.register.copy].into_iter().flatten().filter_map(|half| {
            let text = std::str::from_utf8(half).ok()?;
            Layout::from_stored_with(text, secrets::given()).ok()
        });
        let doubt = doubt(&self.register, &self.witnesses).ok().flatten();
        let given =
            given.and_then(|given| if let Given::Stored(layout) = given { Some(Layout::clone(layout)) } else { None });
        register.chain(doubt).chain(given).map(|layout| layout.revision()).max().unwrap_or_default()
    }

    /// The data that a layout doesn't read.
    pub(crate) fn unaccounted(&self, layout: Option<&Layout>) -> Vec<(Stem, &Found)> {
        self.heads.unaccounted(layout.unwrap_or(&Layout::default()))
    }
}

/// Whether the register says a layout, if not one that this keyfold can read.
fn is_whole(register: &Register) -> bool {
    matches!(register.standing(secrets::given()), Standing::InForce(_) | Standing::OtherVersion(_))
}

/// A layout that a witness knows of, and that is newer than what the register says.
fn doubt(register: &Register, witnesses: &[Witness]) -> anyhow::Result<Option<Layout>> {
    let home = match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) | Standing::Parted(layout) => Some(layout),
        Standing::Lost(_) => None,
        // What can't be read can't be held against anything.
        Standing::Unclear(_) | Standing::OtherVersion(_) => return Ok(None),
    };
    witnesses::doubt(witnesses, home.as_ref())
}

fn show_unaccounted(servers: &[Server], unaccounted: &[(Stem, &Found)], has_layout: bool) -> String {
    let server = &servers[0];
    let where_at = match servers.len() {
        1 => format!("the server at {}", server.address()),
        _ => format!("the cluster of {}", server.address()),
    };
    let lines: Vec<String> = unaccounted.iter().take(NAMED).map(|(stem, found)| found.line(*stem)).collect();
    let more = unaccounted.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let what = if has_layout {
        "holds folded keys that the layout doesn't name"
    } else {
        "holds folded keys, and its layout is lost"
    };
    format!(
        "{where_at} {what}:\n  {}{more}\nNothing is served or changed until a layout accounts for them: `keyfold \
         layout recover {} --layout FILE` takes the file they were folded by, or what `keyfold layout show --toml` \
         printed. DEL what nobody needs",
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
            Self::InForce(layout)
            | Self::Half(layout)
            | Self::Parted(layout)
            | Self::Witnessed(layout)
            | Self::Given(layout) => Some(layout),
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
