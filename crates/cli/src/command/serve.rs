//! `keyfold serve`: the server first, then the layout, then the proxy. Nothing is served until all is right.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use keyfold_core::layout::Layout;
use keyfold_proxy::config::ServerTls;
use keyfold_proxy::{ServiceManager, Sockets, StartError};
use keyfold_report::paper::Paper;
use keyfold_server::{OwnServer, Target, listpack};
use signal_hook::iterator::Signals;

use crate::command::reload::Reloading;
use crate::command::settle;
use crate::config::activation;
use crate::config::serve::{self as resolving, Behind, Serve};
use crate::flags::serve::ServeFlags;
use crate::moving::rollout;
use crate::settings::Settings;

pub(crate) fn run(flags: ServeFlags, settings: Settings, out: &mut Paper) -> anyhow::Result<()> {
    if flags.configuration.print_config {
        return Ok(out.whole(settings.to_file().trim_end_matches('\n'))?);
    }
    let checks = flags.configuration.check;
    let config = resolving::resolve(flags, settings.file.as_ref())?;
    if checks {
        check(config)?;
        return Ok(writeln!(out, "ok")?);
    }
    start(config, settings, activation::sockets()?, out)
}

/// Looks at what is left to look at without a server.
fn check(config: Serve) -> anyhow::Result<()> {
    let target = match config.server {
        Behind::Upstream(target) => target,
        Behind::Own { program, .. } => {
            OwnServer::program(program.as_deref())?;
            Target { address: "unix:///nowhere".parse()?, tls: ServerTls::default(), addresses: Arc::default() }
        }
    };
    let wrong = keyfold_proxy::check(&config.proxy.before(&target, Layout::default()));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(resolving::all(wrong.iter().map(explain).collect())),
    }
}

fn start(config: Serve, settings: Settings, sockets: Sockets, out: &mut Paper) -> anyhow::Result<()> {
    let hangups = Reloading::listen()?;
    // The layout is brought before anything is listened on: it would be in force, and nobody serve it.
    let taken = keyfold_proxy::check_addresses(config.proxy.alone(), &sockets);
    if !taken.is_empty() {
        return Err(resolving::all(taken.iter().map(explain).collect()));
    }
    let (mut own, target) = match &config.server {
        Behind::Upstream(target) => (None, target.clone()),
        Behind::Own { program, data } => {
            let own = OwnServer::start(program.as_deref(), data.as_deref())?;
            let target = own.target().clone();
            if data.is_none() {
                tracing::warn!("keyfold's own server keeps nothing: all is gone when it stops; --data DIR keeps it");
            }
            (Some(own), target)
        }
    };
    let layout = prepare(&config, &target, own.is_some())?;
    let ready = Ready { layout, sockets, hangups };
    let served = serve(config, settings, &target, ready, own.as_mut(), out);
    if let Some(own) = own {
        own.stop();
    }
    served
}

/// Brings the layout to the server or the cluster, and says what is not as it should be.
fn prepare(config: &Serve, target: &Target, own: bool) -> anyhow::Result<Layout> {
    let (mut nodes, rollout) = rollout::bring(target, config.layout.as_ref(), config.key_check)?;
    // One primary that is away is no reason not to serve the others' keys.
    for error in nodes.away() {
        tracing::warn!("{error:#}; serving without it until it is back");
    }
    let server = nodes.first().version().clone();
    if nodes.are_cluster() {
        tracing::info!(nodes = nodes.addresses().join(", "), %server, "connected to a cluster");
    } else {
        tracing::info!(%server, "connected");
    }
    if rollout.layout.is_empty() {
        tracing::warn!("no layout: every key passes through as it is; name a layout with --layout FILE");
    } else {
        tracing::info!("{}", rollout.summary());
    }
    if own {
        for setting in listpack::raise(nodes.first(), &rollout.layout)? {
            tracing::info!("set {setting} on keyfold's own server, as the layout needs it");
        }
    }
    let shortfalls = rollout::shortfalls(&nodes, &rollout.layout, &config.assumed);
    for warning in rollout.warnings().iter().chain(&shortfalls) {
        tracing::warn!("{warning}");
    }
    if let Some(warning) = nodes.other_releases() {
        tracing::warn!("{warning}");
    }
    Ok(rollout.layout)
}

/// What is at hand once all is right.
struct Ready {
    layout: Layout,
    sockets: Sockets,
    /// What asks for files to be read again.
    hangups: Signals,
}

/// Serves until asked to stop, or until keyfold's own server ends.
fn serve(
    config: Serve,
    settings: Settings,
    target: &Target,
    Ready { layout, sockets, hangups }: Ready,
    own: Option<&mut OwnServer>,
    out: &mut Paper,
) -> anyhow::Result<()> {
    let (users, layout_source, key_check) = (config.users, config.layout_source, config.key_check);
    let started = keyfold_proxy::start_with(config.proxy.before(target, layout), sockets);
    let handle = started.map_err(|error| explain(&error))?;
    handle.follow_signals().context("can't follow signals")?;
    let (target_again, reloader) = (target.clone(), handle.reloader());
    let manager = ServiceManager::found();
    let told = manager.clone();
    Reloading { users, layout: layout_source, key_check, settings, target: target_again, reloader, manager: told }
        .follow(hangups)?;
    settle::follow(target.clone(), handle.layouts())?;
    let (stopped, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    if let Some(own) = own {
        let (stopper, stopped, lost) = (handle.stopper(), Arc::clone(&stopped), Arc::clone(&lost));
        own.on_end(move |ended| {
            if !stopped.load(Ordering::SeqCst) {
                tracing::error!("keyfold's own server is gone: {}", ended.how());
                lost.store(true, Ordering::SeqCst);
                stopper.stop();
            }
        });
    }
    for address in handle.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    if let Some(address) = handle.admin_address() {
        writeln!(out, "admin on {address}")?;
    }
    out.flush()?;
    if let Some(manager) = manager {
        handle.tell(manager).context("can't tell the service manager")?;
    }
    let ended = handle.join();
    stopped.store(true, Ordering::SeqCst);
    tracing::info!("stopped");
    if lost.load(Ordering::SeqCst) {
        bail!("keyfold's own server ended while it was needed");
    }
    ended.map_err(|error| anyhow!("{error}"))
}

/// What to do where the port is another's, which at the default port is likely. The proxy's errors say their causes
/// themselves.
fn explain(error: &StartError) -> anyhow::Error {
    match error {
        StartError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            anyhow!("{error}; something listens there already, choose another with --listen 127.0.0.1:6380")
        }
        StartError::BindAdmin { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            anyhow!("{error}; something listens there already, choose another with --admin")
        }
        _ => anyhow!("{error}"),
    }
}
