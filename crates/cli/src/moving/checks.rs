//! What stands against a move, and what should be known before it.

use keyfold_core::layout::Layout;
use keyfold_report::number::{mebibytes, plural};
use keyfold_server::{Server, listpack};

use super::permissions;
use super::survey::Survey;

/// What a move may take above what is there, in percent, while buckets fill and keys go.
const HEADROOM_PERCENT: u64 = 5;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// What must be mended first.
    pub(crate) obstacles: Vec<String>,
    /// What works, and should be known.
    pub(crate) warnings: Vec<String>,
}

/// Looks at the server's role, its user's rights, settings, memory and clients.
pub(crate) fn check(
    server: &mut Server,
    layout: &Layout,
    survey: &Survey,
    assumed: &[(String, u64)],
) -> anyhow::Result<Checks> {
    let mut checks = Checks::default();
    if server.info("replication")?.field("role") == Some("slave") {
        checks.obstacles.push("this server is a replica; move on its primary".to_owned());
    }
    checks.obstacles.extend(permissions::check(server)?);
    let folds = layout.moving().any(|namespace| !namespace.placement.is_plain());
    if folds {
        checks.obstacles.extend(listpack::shortfalls(server, layout, assumed).iter().map(ToString::to_string));
    }
    check_memory(server, survey, &mut checks)?;
    check_clients(server, &mut checks);
    for (index, family) in &survey.families {
        checks.obstacles.extend(family.hashes.obstacles());
        checks.warnings.extend(family.hashes.warning());
        if family.other_keys > 0 {
            let template = &layout.namespaces()[*index].keys;
            let examples: Vec<String> = family
                .others
                .iter()
                .take(3)
                .map(|(key, kind)| format!("\"{}\" ({kind})", key.escape_ascii()))
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

fn check_memory(server: &mut Server, survey: &Survey, checks: &mut Checks) -> anyhow::Result<()> {
    let limit = server.info("memory")?.number("maxmemory");
    let most = survey.used_bytes.max(survey.after_bytes) / 100 * (100 + HEADROOM_PERCENT);
    if limit > 0 && most > limit {
        checks.obstacles.push(format!(
            "the move may take {} for a while, and maxmemory is {}; raise it with CONFIG SET maxmemory, or \
             move one namespace at a time",
            mebibytes(most),
            mebibytes(limit)
        ));
    }
    Ok(())
}

/// Clients that are connected to the server itself: what they write there keyfold doesn't see.
fn check_clients(server: &mut Server, checks: &mut Checks) {
    let Ok(list) = server.ask::<String>(&[b"CLIENT", b"LIST"]) else {
        checks.warnings.push(
            "the server doesn't show its clients (CLIENT LIST); see to it that all go through keyfold".to_owned(),
        );
        return;
    };
    let word = |line: &str, name: &str| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
            .unwrap_or_default()
    };
    let is_ours =
        |line: &&str| word(line, "name").starts_with("keyfold") || word(line, "lib-name").starts_with("keyfold");
    let proxies = list.lines().filter(|line| word(line, "name").starts_with("keyfold:")).count();
    // Before Redis 7.2 a connection doesn't tell its library; the one that asks is known by its command.
    let others: Vec<String> = list
        .lines()
        .filter(|line| !is_ours(line) && word(line, "cmd") != "client|list" && word(line, "cmd") != "client")
        .filter(|line| !matches!(word(line, "flags").as_str(), "S" | "M"))
        .map(|line| format!("{} ({})", word(line, "addr"), word(line, "cmd")))
        .collect();
    if !others.is_empty() {
        checks.warnings.push(format!(
            "{} connected to the server itself, past keyfold: {}; what they do to these keys clients of keyfold may \
             not see. Point them to keyfold first",
            plural(others.len() as u64, "client"),
            others[..others.len().min(5)].join(", ")
        ));
    }
    if proxies == 0 {
        checks.warnings.push("no keyfold proxy is connected; from now on clients must go through one".to_owned());
    }
}
