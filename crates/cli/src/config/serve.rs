//! `keyfold serve`: flags and files to a configuration.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use keyfold_core::access::{Users, UsersFile as _};
use keyfold_core::cluster::{Announced, Endpoint};
use keyfold_core::layout::{CacheRules, Layout, LayoutFile};
use keyfold_core::resp::RequestLimits;
use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::config::{Admin, Caching, ClientTls, Limits, Slow, Sweeping, Timeouts};
use keyfold_proxy::{AdminToken, Config};
use keyfold_server::Target;
use keyfold_server::secrets;

use super::files::{first_line, read};
use super::{target, users_file};
use crate::flags::serve::{
    AccessFlags, AdminFlags, CacheFlags, LimitFlags, PASSWORD_VARIABLE, ServeFlags, ServerFlags, TimeoutFlags,
};
use crate::flags::upstream::UpstreamFlags;
use crate::layout::file;
use crate::moving::KeyCheck;
use crate::settings::ConfigFile;

/// All that serving takes.
pub(crate) struct Serve {
    pub(crate) server: Behind,
    pub(crate) layout: Option<LayoutFile>,
    /// Where it was read from.
    pub(crate) layout_source: Option<LayoutSource>,
    pub(crate) key_check: KeyCheck,
    pub(crate) users: UsersSource,
    pub(crate) assumed: Vec<(String, u64)>,
    pub(crate) proxy: Proxy,
}

/// Where the layout is read from, at the start and on SIGHUP.
#[derive(Clone)]
pub(crate) enum LayoutSource {
    /// `--layout FILE`
    File(PathBuf),
    /// The file that `--config` names has it.
    Configuration(ConfigFile),
}

impl LayoutSource {
    /// What is typed wins over what stands in the file.
    pub(crate) fn of(flags: &ServeFlags, file: Option<&ConfigFile>) -> Option<Self> {
        match &flags.layout {
            Some(path) => Some(Self::File(path.clone())),
            None => file.filter(|file| file.layout.is_some()).cloned().map(Self::Configuration),
        }
    }

    /// What it says now; of a configuration, what that said when it was read.
    pub(crate) fn read(&self) -> anyhow::Result<LayoutFile> {
        match self {
            Self::File(path) => file::read(path),
            Self::Configuration(file) => {
                file.layout().unwrap_or_else(|| unreachable!("it is a source only where it has a layout"))
            }
        }
    }
}

/// The server behind the proxy.
pub(crate) enum Behind {
    /// One that runs already.
    Upstream(Target),
    /// One of keyfold's own.
    Own { program: Option<PathBuf>, data: Option<PathBuf> },
}

/// The proxy's configuration, the server and the layout aside.
pub(crate) struct Proxy(Config);

impl Proxy {
    /// What there is of it without a server.
    pub(crate) fn alone(&self) -> &Config {
        &self.0
    }

    /// The whole of it.
    pub(crate) fn before(self, target: &Target, layout: Layout) -> Config {
        let (upstream, server_tls) = (target.address.clone(), target.tls.clone());
        let addresses = Arc::clone(&target.addresses);
        Config { upstream, addresses, server_tls, layout: Arc::new(layout), ..self.0 }
    }
}

/// The keyfolds that are announced, the first of which is this one. In which order the others are named is all the same.
fn announced(endpoints: &[Endpoint]) -> anyhow::Result<Option<Arc<Announced>>> {
    let Some(own) = endpoints.first() else { return Ok(None) };
    let mut all = endpoints.to_vec();
    all.sort_unstable();
    let at = all.iter().position(|endpoint| endpoint == own).unwrap_or_default();
    Ok(Some(Arc::new(Announced::new(&all, at).context("--announce")?)))
}

/// Reads all files that are named.
///
/// # Errors
/// All that is wrong with them.
pub(crate) fn resolve(flags: ServeFlags, file: Option<&ConfigFile>) -> anyhow::Result<Serve> {
    let mut wrong = Vec::new();
    let layout_source = LayoutSource::of(&flags, file);
    let layout = noted(layout_source.as_ref().map(LayoutSource::read).transpose(), &mut wrong);
    let admin = noted(admin(&flags.admin, &flags.access), &mut wrong);
    let users_source = UsersSource::of(&flags.access);
    let users = noted(users_source.read(), &mut wrong);
    let server = noted(behind(flags.upstream, flags.upstream_password_file.as_deref(), flags.server), &mut wrong);
    let announced = noted(announced(&flags.announce), &mut wrong);
    let (Some(layout), Some(admin), Some(users), Some(server), Some(announced)) =
        (layout, admin, users, server, announced)
    else {
        return Err(all(wrong));
    };
    if flags.takeover.is_some() && matches!(server, Behind::Own { .. }) {
        bail!(
            "--takeover is for a server that is named: one of keyfold's own ends with its keyfold, and no other can take it over. \
             Write the server's URL, or leave out --takeover"
        );
    }
    // The server's address is not known yet where the server is keyfold's own.
    let nowhere = "unix:///nowhere".parse()?;
    let config = Config {
        listen: flags.listen,
        threads: flags.threads,
        encode_threads: flags.encode_threads,
        client_tls: client_tls(&flags.access),
        admin,
        takeover: flags.takeover,
        users: Arc::new(users),
        secrets: secrets::given().clone(),
        allow_open: flags.access.allow_open,
        limits: limits(&flags.limits),
        slow: Slow {
            kept_from: flags.slow.slowlog_slower_than.0,
            most_kept: flags.slow.slowlog_max_len,
            logged_from: flags.slow.log_slow.0,
        },
        timeouts: timeouts(&flags.timeouts),
        announced,
        split_writes: flags.split_writes,
        newest_commands: flags.newest_commands,
        read_from: flags.read_from,
        max_replica_lag: flags.max_replica_lag.0,
        read_only_in_doubt: flags.read_only_in_doubt,
        sweep: Sweeping { fields_per_second: flags.sweep_rate, ..Sweeping::default() },
        cache: caching(&flags.cache),
        ..Config::new(nowhere, Layout::default())
    };
    let key_check = if flags.skip_key_check { KeyCheck::Skip } else { KeyCheck::Look };
    let (users, assumed, proxy) = (users_source, flags.settings.assume, Proxy(config));
    Ok(Serve { server, layout, layout_source, key_check, users, assumed, proxy })
}

fn caching(flags: &CacheFlags) -> Caching {
    let rules = |max_memory| CacheRules { policy: flags.evict, max_memory, plain_keys: flags.evict_plain_keys };
    Caching { rules: flags.max_memory.map(rules), counters_bytes: flags.evict_counters.0 as u64 }
}

fn noted<T>(read: anyhow::Result<T>, wrong: &mut Vec<anyhow::Error>) -> Option<T> {
    read.map_err(|error| wrong.push(error)).ok()
}

/// Several mistakes as one error.
pub(crate) fn all(mut wrong: Vec<anyhow::Error>) -> anyhow::Error {
    match wrong.len() {
        1 => wrong.swap_remove(0),
        many => {
            let said: Vec<String> = wrong.iter().map(|error| format!("{error:#}")).collect();
            anyhow!("{many} things are wrong:\n{}", said.join("\n"))
        }
    }
}

fn behind(upstream: UpstreamFlags, password: Option<&Path>, own: ServerFlags) -> anyhow::Result<Behind> {
    let Some(mut address) = upstream.address else {
        if password.is_some() {
            bail!(
                "--upstream-password-file is for a server that is named: write its URL, as --upstream or in KEYFOLD_UPSTREAM"
            );
        }
        return Ok(Behind::Own { program: own.server, data: own.data });
    };
    if let Some(path) = password {
        if address.password.is_some() {
            bail!("the server's password is said twice: take it out of the URL, or leave out --upstream-password-file");
        }
        let text = read(path, "the server's password")?;
        let password = str::from_utf8(first_line(&text)).ok().filter(|password| !password.is_empty());
        let password = password.with_context(|| format!("{} begins with no password that is text", path.display()))?;
        address.password = Some(password.to_owned());
    }
    Ok(Behind::Upstream(target::at(address, upstream.way)))
}

fn client_tls(flags: &AccessFlags) -> Option<ClientTls> {
    let (cert, key) = flags.tls_cert.clone().zip(flags.tls_key.clone())?;
    Some(ClientTls { cert, key, client_ca: flags.tls_client_ca.clone() })
}

/// Where operators come in. On TLS they are shown what clients are shown.
fn admin(flags: &AdminFlags, access: &AccessFlags) -> anyhow::Result<Option<Admin>> {
    let Some(listen) = flags.admin.clone() else { return Ok(None) };
    let token = flags.admin_token_file.as_deref().map(AdminToken::read).transpose()?;
    if flags.admin_client_ca.is_some() && !matches!(listen, ListenAddress::Tls(_)) {
        bail!("--admin-client-ca is for TLS: write --admin tls://{listen}, or leave it out");
    }
    let tls = client_tls(access).map(|tls| ClientTls { client_ca: flags.admin_client_ca.clone(), ..tls });
    Ok(Some(Admin { token, tls, usd_per_gb_month: flags.usd_per_gb_month, ..Admin::at(listen) }))
}

/// What says who may come in.
pub(crate) enum UsersSource {
    /// `--users FILE`
    Users(users_file::File),
    /// `--password-file FILE`, the one password of all.
    Password(users_file::File),
    /// The environment's password, or nothing.
    Environment,
}

impl UsersSource {
    fn of(flags: &AccessFlags) -> Self {
        match (&flags.users, &flags.password_file) {
            (Some(path), _) => Self::Users(users_file::File::at(path.clone())),
            (None, Some(path)) => Self::Password(users_file::File::at(path.clone())),
            (None, None) => Self::Environment,
        }
    }

    /// The file, where there is one: what may say something else by now.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file().map(users_file::File::path)
    }

    fn file(&self) -> Option<&users_file::File> {
        match self {
            Self::Users(file) | Self::Password(file) => Some(file),
            Self::Environment => None,
        }
    }

    /// Who may come in, as it says at the start.
    pub(crate) fn read(&self) -> anyhow::Result<Users> {
        let Some(file) = self.file() else {
            let Some(password) = env::var_os(PASSWORD_VARIABLE) else { return Ok(Users::open()) };
            let password = password.into_encoded_bytes();
            check_password(&password)?;
            return Ok(Users::with_password(&password));
        };
        let text = read(file.path(), self.what())?;
        let users = match self.parse(&text)? {
            Said::Users(users) => users.kept_in(file.clone()),
            Said::Password(password) => Users::with_password(&password),
        };
        file.note(&text);
        Ok(users)
    }

    /// What its file says, where that is something else by now.
    pub(crate) fn read_again(&self) -> anyhow::Result<Option<Said>> {
        let Some(file) = self.file() else { return Ok(None) };
        let text = read(file.path(), self.what())?;
        if file.is_known(&text) {
            return Ok(None);
        }
        let said = self.parse(&text)?;
        file.note(&text);
        Ok(Some(said))
    }

    fn what(&self) -> &'static str {
        if matches!(self, Self::Users(_)) { "the users" } else { "the password" }
    }

    fn parse(&self, text: &[u8]) -> anyhow::Result<Said> {
        if let Self::Users(file) = self {
            let users = Users::parse(text).with_context(|| format!("{}", file.path().display()))?;
            return Ok(Said::Users(users));
        }
        let password = first_line(text).to_vec();
        check_password(&password)?;
        Ok(Said::Password(password))
    }
}

/// What a file of users, or of the password, says.
pub(crate) enum Said {
    /// These are the users.
    Users(Users),
    /// This is the password of the user `default`.
    Password(Vec<u8>),
}

fn check_password(password: &[u8]) -> anyhow::Result<()> {
    if password.is_empty() {
        bail!("the password is empty; write one, or leave out --password-file and {PASSWORD_VARIABLE}");
    }
    Ok(())
}

fn limits(flags: &LimitFlags) -> Limits {
    Limits {
        max_clients: flags.max_clients,
        request: RequestLimits {
            max_args: flags.max_arguments,
            max_bulk_bytes: flags.max_argument_bytes.0,
            max_request_bytes: flags.max_request_bytes.0,
        },
        max_in_flight: flags.max_in_flight.max(1),
        answer_high_water_bytes: flags.answer_high_water_bytes.0,
        max_queued_answer_bytes: flags.max_queued_answer_bytes.0,
        server_high_water_bytes: flags.server_high_water_bytes.0,
        idle_server_connections: flags.idle_server_connections,
        max_tracked_keys: flags.max_tracked_keys,
    }
}

fn timeouts(flags: &TimeoutFlags) -> Timeouts {
    Timeouts {
        connect: flags.connect_timeout.0,
        server: flags.server_timeout.0,
        slow: flags.slow_timeout.0,
        idle_client: flags.idle_timeout.0,
        write_stall: flags.write_timeout.0,
        handshake: flags.handshake_timeout.0,
        shutdown: flags.shutdown_timeout.0,
        drain: flags.drain_timeout.0,
    }
}
