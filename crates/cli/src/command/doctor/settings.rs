//! What isn't in the keyspace: the server's settings, its memory, the file it read, the layout it holds.

use keyfold_core::admin::SWEEP_KEY;
use keyfold_core::change::Standing;
use keyfold_proxy::address::{Route, ServerAddress};
use keyfold_server::layout::{dictionaries, stored};
use keyfold_server::reply::FromReply;
use keyfold_server::{Info, LinkError, Server, ServerTime};
use keyfold_server::{replicas, secrets};
use keyfold_survey::diagnosis::{
    ConfigFile, Expected, LayoutState, Limit, MemoryFacts, Observation, Origin, Replica, ServerNames, Setting, Settings,
};

use super::patient::Patient;

/// An observation of everything but the keys.
pub(super) fn observe(
    patient: &mut Patient,
    assumed: &[(String, u64)],
    expected: Option<Expected>,
    known: Option<LayoutState>,
) -> anyhow::Result<Observation> {
    let server = &mut patient.server;
    let memory = server.info("memory")?;
    let loaded = server.info("server")?.field("config_file").map(str::to_owned);
    let mut seen = Observation {
        names: names(server.address()),
        settings: settings(server, assumed, &memory)?,
        memory: MemoryFacts::from_info(memory.text()),
        config_file: ConfigFile { loaded, expected },
        layout: known.map_or_else(|| layout(server), Ok)?,
        ..Observation::default()
    };
    seen.leftovers.now_ms = ServerTime::ask(server)?.now_ms();
    seen.leftovers.sweeping = is_held(server)?;
    Ok(seen)
}

/// What replicas say of their settings.
pub(super) fn replicas(replicas: Vec<replicas::Replica>, assumed: &[(String, u64)]) -> Vec<Replica> {
    let asked = replicas.into_iter().map(|replica| {
        let told = replica.server.and_then(|mut server| {
            let memory = server.info("memory")?;
            settings(&mut server, assumed, &memory)
        });
        Replica { names: names(&replica.target.address), settings: told.map_err(|error| format!("{error:#}")) }
    });
    asked.collect()
}

fn names(address: &ServerAddress) -> ServerNames {
    let redis_cli = match &address.route {
        Route::Tcp { host, port, tls } => {
            format!("redis-cli -h {host} -p {port}{}", if *tls { " --tls" } else { "" })
        }
        Route::Unix(path) => format!("redis-cli -s {}", path.display()),
        // Its own address is known once there is a connection.
        Route::Sentinel { .. } | Route::Cluster { .. } => "redis-cli".to_owned(),
    };
    ServerNames { url: address.to_string(), redis_cli }
}

fn settings(server: &mut Server, assumed: &[(String, u64)], memory: &Info) -> anyhow::Result<Settings> {
    let mut settings = Settings {
        maxmemory_bytes: memory.number("maxmemory"),
        maxmemory_policy: memory.field("maxmemory_policy").unwrap_or("noeviction").to_owned(),
        old_names: server.version().flavor == "Redis" && server.version().number.starts_with("6."),
        ..Settings::default()
    };
    for limit in [Limit::Entries, Limit::ValueBytes] {
        let assumed = assumed.iter().rev().find(|(name, _)| name == limit.name());
        let setting = match assumed {
            Some((_, value)) => Some(Setting { value: *value, origin: Origin::Assumed }),
            None => ask_limit(server, settings.name_of(limit))?,
        };
        let slot = match limit {
            Limit::Entries => &mut settings.hash_entries,
            Limit::ValueBytes => &mut settings.hash_value_bytes,
        };
        *slot = setting.unwrap_or(*slot);
    }
    Ok(settings)
}

/// None where CONFIG is blocked.
fn ask_limit(server: &mut Server, name: &str) -> anyhow::Result<Option<Setting>> {
    let pair: Option<Vec<String>> = unless_refused(server, &[b"CONFIG", b"GET", name.as_bytes()])?;
    let value = pair.and_then(|pair| pair.get(1)?.parse().ok());
    Ok(value.map(|value| Setting { value, origin: Origin::Server }))
}

/// The server's layout; one that doesn't read is no reason to stop.
pub(super) fn layout(server: &mut Server) -> anyhow::Result<LayoutState> {
    // Who may not read it can't use keyfold either; the hashes can be looked at all the same.
    let Ok(register) = stored::register(server) else { return Ok(LayoutState::Absent) };
    Ok(match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => LayoutState::Known(dictionaries::open(server, layout)?),
        Standing::Lost(None) => LayoutState::Absent,
        Standing::Parted(_) => {
            LayoutState::Damaged("keyfold:{home}:layout and keyfold:{home}:layout:copy differ".to_owned())
        }
        Standing::Lost(Some(why)) | Standing::Unclear(why) | Standing::OtherVersion(why) => LayoutState::Damaged(why),
    })
}

/// Whether somebody holds the lease; not, as far as one may see, where one may not.
fn is_held(server: &mut Server) -> anyhow::Result<bool> {
    Ok(unless_refused(server, &[b"EXISTS", SWEEP_KEY])?.unwrap_or(false))
}

/// An answer; none where the server refuses it to this user.
fn unless_refused<T: FromReply>(server: &mut Server, command: &[&[u8]]) -> anyhow::Result<Option<T>> {
    match server.query(command) {
        Err(LinkError::Refused(_)) => Ok(None),
        answer => answer.map(Some).map_err(|error| server.explain(&error)),
    }
}
