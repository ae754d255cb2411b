//! What stands against a move, and what should be known before it.

use keyfold_core::layout::{Layout, Namespace};
use keyfold_report::number::{plural, size};
use keyfold_server::{Nodes, Server, listpack};

use super::filling::Overfull;
use super::survey::{ServerMemory, Survey};
use super::{gain, pass, permissions};
use crate::records::key_name;

/// What a move may take above what is there, in percent, while buckets fill and keys go.
const HEADROOM_PERCENT: u64 = 5;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// What must be mended first.
    pub(crate) obstacles: Vec<String>,
    /// What works, and should be known.
    pub(crate) warnings: Vec<String>,
    /// Settings that are to be raised first, where the user wants that.
    pub(crate) raises: Vec<String>,
}

/// What the user says of the servers' limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    /// What they are, where servers don't tell.
    pub(crate) assumed: &'a [(String, u64)],
    /// Whether they are raised where the layout needs more.
    pub(crate) raise: bool,
}

/// Looks at each server's role, its user's rights, settings, memory and clients, and at what stands against a move of a
/// cluster's keys.
///
/// `now` is the layout in force.
pub(crate) fn check(
    nodes: &mut Nodes,
    now: Option<&Layout>,
    layout: &Layout,
    survey: &Survey,
    limits: Limits<'_>,
) -> anyhow::Result<Checks> {
    let mut checks = Checks::default();
    let folds = layout.moving().any(|namespace| !namespace.placement.is_plain());
    let is_cluster = nodes.are_cluster();
    let mut clients = Clients::default();
    let mut entries_limit = None;
    for (server, memory) in nodes.servers().iter_mut().zip(&survey.servers) {
        let mut obstacles = Vec::new();
        if server.info("replication")?.field("role") == Some("slave") {
            let what = if is_cluster {
                "has become a replica meanwhile; run it again"
            } else {
                "is a replica; move on its primary"
            };
            obstacles.push(format!("this server {what}"));
        }
        obstacles.extend(permissions::check(server, layout)?);
        if folds {
            let (short, raises) = look_at_limits(server, layout, limits);
            obstacles.extend(short);
            checks.raises.extend(raises);
            let limit = listpack::entries_limit(server, limits.assumed);
            entries_limit = entries_limit.into_iter().chain(limit).min();
        }
        obstacles.extend(check_memory(server, memory)?);
        clients.look(server);
        let address = server.address().to_string();
        let named = |obstacle| if is_cluster { format!("{address}: {obstacle}") } else { obstacle };
        checks.obstacles.extend(obstacles.into_iter().map(named));
    }
    clients.warn(folds, &mut checks.warnings);
    if folds && !limits.raise {
        checks.warnings.extend(listpack::shortfalls_at_replicas(nodes, layout, limits.assumed)?);
    }
    check_filling(
        &mut checks,
        layout,
        survey,
        entries_limit.map(|limit| match limits.raise {
            true => limit.max(listpack::least(layout).0),
            false => limit,
        }),
    );
    if is_cluster && let Some(doubt) = pass::doubt_now(nodes)? {
        checks.warnings.push(format!("the move could not be settled now: {doubt}"));
    }
    for (index, family) in &survey.families {
        checks.warnings.extend(gain::warning(&layout.namespaces()[*index], family));
        checks.warnings.extend(gain::of_large(&layout.namespaces()[*index], family));
        let template = &layout.namespaces()[*index].keys;
        let in_force = now.and_then(|now| Some(now.namespace(now.find(template)?)));
        let moves_already = in_force.is_some_and(Namespace::is_moving);
        checks.obstacles.extend(family.hashes.obstacles(moves_already));
        checks.warnings.extend(family.hashes.warning(moves_already));
        if family.other_keys > 0 {
            let examples: Vec<String> = family
                .others
                .iter()
                .take(3)
                .map(|(database, key, kind)| format!("{} ({kind})", key_name(*database, key)))
                .collect();
            checks.warnings.push(format!(
                "{} of {template} hold another type and stay as they are, such as {}; until they are renamed or \
                 removed the namespace stays between its placements, and costs a little more time",
                plural(family.other_keys, "key"),
                examples.join(", ")
            ));
        }
    }
    Ok(checks)
}

/// What falls short, with what to do, and what is to be raised.
fn look_at_limits(server: &mut Server, layout: &Layout, limits: Limits<'_>) -> (Vec<String>, Vec<String>) {
    let mut raised = if limits.raise { listpack::shortfalls(server, layout, &[]) } else { Vec::new() };
    raised.retain(listpack::Shortfall::is_told);
    let mut short = listpack::shortfalls(server, layout, limits.assumed);
    short.retain(|short| !raised.iter().any(|raised| raised.is_of_setting(short)));
    let short = short.iter().map(|short| match short.is_told() {
        true => format!(
            "{short}. `keyfold fold --raise-limits` does that, on replicas too; `keyfold plan --keep-settings` makes a layout \
             for the settings as they are"
        ),
        false => short.to_string(),
    });
    let address = server.address();
    (short.collect(), raised.iter().map(|raised| format!("{} on the server at {address}", raised.change())).collect())
}

/// Buckets that would be too full; a server that doesn't tell its limit is not judged.
fn check_filling(checks: &mut Checks, layout: &Layout, survey: &Survey, limit: Option<u64>) {
    for (index, family) in &survey.families {
        let namespace = &layout.namespaces()[*index];
        match limit.and_then(|limit| family.filling.over(namespace, limit)) {
            Some(Overfull::Mistake(text)) => checks.obstacles.push(text),
            Some(Overfull::Some(text)) => checks.warnings.push(text),
            None => {}
        }
    }
}

fn check_memory(server: &mut Server, memory: &ServerMemory) -> anyhow::Result<Option<String>> {
    let limit = server.info("memory")?.number("maxmemory");
    let most = memory.used_bytes.max(memory.after_bytes) / 100 * (100 + HEADROOM_PERCENT);
    Ok((limit > 0 && most > limit).then(|| {
        format!(
            "the move may take {} for a while, and maxmemory is {}; raise it with CONFIG SET maxmemory, or \
             move one namespace at a time",
            size(most),
            size(limit)
        )
    }))
}

/// Clients that are connected to the servers themselves: what they write there keyfold doesn't see.
#[derive(Default)]
struct Clients {
    /// Connections of keyfold proxies.
    proxies: usize,
    others: Vec<String>,
    is_hidden: bool,
}

impl Clients {
    fn look(&mut self, server: &mut Server) {
        let Ok(list) = server.ask::<String>(&[b"CLIENT", b"LIST"]) else {
            self.is_hidden = true;
            return;
        };
        let word = |line: &str, name: &str| {
            line.split(' ')
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
                .unwrap_or_default()
        };
        let is_ours =
            |line: &&str| word(line, "name").starts_with("keyfold") || word(line, "lib-name").starts_with("keyfold");
        self.proxies += list.lines().filter(|line| word(line, "name").starts_with("keyfold:")).count();
        // Before Redis 7.2 a connection doesn't tell its library; the one that asks is known by its command.
        let others = list
            .lines()
            .filter(|line| !is_ours(line) && word(line, "cmd") != "client|list" && word(line, "cmd") != "client")
            .filter(|line| !matches!(word(line, "flags").as_str(), "S" | "M"))
            .map(|line| format!("{} ({})", word(line, "addr"), word(line, "cmd")));
        self.others.extend(others);
    }

    /// `folds` where keys go to buckets, or stay in them.
    fn warn(&self, folds: bool, warnings: &mut Vec<String>) {
        let Self { proxies, others, is_hidden } = self;
        if *is_hidden {
            warnings.push(
                "the server doesn't show its clients (CLIENT LIST); see to it that all go through keyfold".to_owned(),
            );
            return;
        }
        if !others.is_empty() {
            warnings.push(format!(
                "{} connected to the server itself, past keyfold: {}; what they do to these keys clients of keyfold may \
                 not see. Point them to keyfold first",
                plural(others.len() as u64, "client"),
                others[..others.len().min(5)].join(", ")
            ));
        }
        if *proxies == 0 {
            let when = if folds { "from now on" } else { "until all keys are back" };
            warnings.push(format!("no keyfold proxy is connected; {when} clients must go through one"));
        }
    }
}
