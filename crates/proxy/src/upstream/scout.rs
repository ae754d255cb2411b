//! Asks Sentinels where the primary is, for all workers.
//!
//! A look is the core's [`Search`]. One begins when somebody wants to know, when a Sentinel tells unasked that there may
//! be another primary (every one of them is listened to, as the one that replaces it knows first), and from time to time
//! in any case: what Sentinels tell unasked is a hint, and may be lost.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyfold_core::cluster::Endpoint;
use keyfold_core::resp::{Protocol, ReplyScanner};
use keyfold_core::sentinel::{Course, News, Primary, Role, Search, Sentinels};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet, spawn_local};
use tokio::time::timeout;

use super::link::{Link, LinkError, reach};
use crate::address::Route;
use crate::backoff::Backoff;
use crate::whereabouts::{Found, Whereabouts};
use crate::worker::Worker;

/// Between two looks that nobody wanted.
const GLANCE: Duration = Duration::from_secs(1);

/// The same while there is no primary: until there is, clients wait for it.
const WATCH: Duration = Duration::from_millis(100);

/// Between the beginnings of two looks at least, whoever wants them.
const GAP: Duration = Duration::from_millis(100);

/// What takes to ask one Sentinel may take up so much of the time to connect, or one server twice as much.
const SHARES: u32 = 4;

/// A Sentinel that takes longer to answer is waited for, and the next is asked meanwhile.
const HEDGE: Duration = Duration::from_millis(100);

/// Whom to ask, and the way there.
#[derive(Clone)]
struct Asked {
    sentinels: Arc<Sentinels>,
    tls: bool,
    sentinel_tls: bool,
}

/// Who is told what listeners hear.
struct Told {
    /// Which Sentinel may know another primary.
    hints: mpsc::UnboundedSender<Endpoint>,
    whereabouts: Arc<Whereabouts>,
}

/// Looks for as long as the worker lives.
pub(crate) async fn look_out(worker: Rc<Worker>, whereabouts: Arc<Whereabouts>) {
    let Route::Sentinel { sentinels, tls, sentinel_tls } = &worker.config.upstream.route else { return };
    let asked = Asked { sentinels: Arc::clone(sentinels), tls: *tls, sentinel_tls: *sentinel_tls };
    let (hints, mut hinted) = mpsc::unbounded_channel();
    let mut listeners: BTreeMap<Endpoint, AbortHandle> = BTreeMap::new();
    let (mut hint, mut believed, mut others) = (None, None, Vec::new());
    loop {
        listeners.retain(|sentinel, listener| {
            let stays = asked.sentinels.endpoints.contains(sentinel) || others.contains(sentinel);
            if !stays {
                listener.abort();
            }
            stays
        });
        for sentinel in asked.sentinels.endpoints.iter().chain(&others) {
            listeners.entry(sentinel.clone()).or_insert_with(|| {
                let told = Told { hints: hints.clone(), whereabouts: Arc::clone(&whereabouts) };
                spawn_local(listen(Rc::clone(&worker), asked.clone(), sentinel.clone(), told)).abort_handle()
            });
        }
        let began = Instant::now();
        tokio::select! {
            biased;
            // Whoever tells of another primary is asked at once: what is under way may wait for the one that is gone.
            told = hinted.recv() => {
                hint = told;
                continue;
            }
            (found, told) = look(&worker, &asked, &others, &whereabouts, believed.as_ref(), hint.take()) => {
                tell(&whereabouts, &asked.sentinels.name, &found);
                others = told.unwrap_or(others);
                worker.folding.borrow().namespaces.primary().note(&asked.sentinels, &others, found.as_ref().ok());
                believed = found.clone().ok().or(believed);
                whereabouts.note(began, found);
            }
        }
        let rest = if matches!(whereabouts.known(), Some(Ok(_))) { GLANCE } else { WATCH };
        tokio::select! {
            biased;
            told = hinted.recv() => hint = told,
            () = async {
                tokio::time::sleep(GAP).await;
                whereabouts.wanted.notified().await;
            } => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Looks once; where `hint` names a Sentinel, that is asked first. Says too which others than those that were named are
/// there, where that is told.
async fn look(
    worker: &Rc<Worker>,
    asked: &Asked,
    others: &[Endpoint],
    whereabouts: &Whereabouts,
    believed: Option<&Primary>,
    hint: Option<Endpoint>,
) -> (Found, Option<Vec<Endpoint>>) {
    let (sentinels, addresses) = (Arc::clone(&asked.sentinels), Arc::clone(&worker.config.addresses));
    let mut search = Search::new(sentinels, others, addresses, believed);
    if let Some(sentinel) = hint {
        search = search.beginning_with(&sentinel);
    }
    if let Some(endpoint) = whereabouts.undoubted() {
        search = search.trusting(endpoint);
    }
    let share = worker.config.timeouts.connect / SHARES;
    // Whoever is asked still when this ends needn't answer any more.
    let mut answers = JoinSet::new();
    loop {
        let patience = match search.course() {
            Course::Over(found) => return (found.map_err(Arc::new), search.others()),
            Course::Ask(sentinel) => {
                let mut questions = Vec::new();
                let replies = search.ask(&mut questions);
                let (worker, tls) = (Rc::clone(worker), asked.sentinel_tls);
                answers.spawn_local(async move {
                    let answers = within(share, ask(&worker, &sentinel, tls, &questions, replies)).await;
                    (sentinel, answers)
                });
                HEDGE
            }
            Course::Wait => share,
            Course::Check(server) => {
                match within(share * 2, ask_role(worker, &server, asked.tls)).await {
                    Ok(role) => search.handle_role(&role),
                    Err(why) => search.handle_failure(&why.to_string()),
                }
                continue;
            }
        };
        match timeout(patience, answers.join_next()).await {
            Ok(Some(Ok((sentinel, Ok(answers))))) => search.handle_answers(&sentinel, &answers),
            Ok(Some(Ok((sentinel, Err(why))))) => search.handle_silence(&sentinel, &why.to_string()),
            Ok(Some(Err(end))) => resume_unwind(end.into_panic()),
            // Whoever takes that long is waited for, and the next is asked meanwhile.
            Ok(None) | Err(_) => {}
        }
    }
}

async fn ask(
    worker: &Worker,
    sentinel: &Endpoint,
    tls: bool,
    questions: &[u8],
    replies: usize,
) -> Result<Vec<Vec<u8>>, LinkError> {
    Link::on(reach(worker, &sentinel.host, sentinel.port, tls).await?).ask(questions, replies).await
}

/// Asks a server for its role, as a connection that might carry requests.
async fn ask_role(worker: &Worker, server: &Endpoint, tls: bool) -> Result<Vec<u8>, LinkError> {
    let mut link = Link::on(reach(worker, &server.host, server.port, tls).await?);
    link.greet(worker, Protocol::Resp2).await?;
    let mut question = Vec::new();
    Role::ask(&mut question);
    link.ask(&question, 1).await?.pop().ok_or(LinkError::Closed)
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    timeout(limit, work).await.unwrap_or(Err(LinkError::TimedOut(limit)))
}

/// Tells the operator what is new.
fn tell(whereabouts: &Whereabouts, name: &str, found: &Found) {
    match (whereabouts.known(), found) {
        (Some(Ok(before)), Ok(primary)) if before.endpoint == primary.endpoint => {}
        (Some(Err(before)), Err(nobody)) if before == *nobody => {}
        (_, Ok(primary)) => {
            let Primary { endpoint, named_by, .. } = primary;
            tracing::info!(name, primary = %endpoint, %named_by, "the primary is known");
        }
        (_, Err(nobody)) => tracing::warn!(name, reason = %nobody, "the primary is not known"),
    }
}

/// Listens to one Sentinel for as long as the worker lives.
async fn listen(worker: Rc<Worker>, asked: Asked, sentinel: Endpoint, told: Told) {
    let mut backoff = Backoff::default();
    loop {
        let since = Instant::now();
        let Err(why) = hear(&worker, &asked, &sentinel, &told).await;
        tracing::debug!(%sentinel, reason = %why, "can't listen to a Sentinel");
        if since.elapsed() > GLANCE {
            backoff = Backoff::default();
        }
        tokio::time::sleep(backoff.next(worker.nonces.draw())).await;
    }
}

/// Hands on what a Sentinel tells until it goes.
async fn hear(worker: &Worker, asked: &Asked, sentinel: &Endpoint, told: &Told) -> Result<Infallible, LinkError> {
    let limit = worker.config.timeouts.connect;
    let mut socket = within(limit, reach(worker, &sentinel.host, sentinel.port, asked.sentinel_tls)).await?;
    let mut wire = Vec::new();
    News::listen(&asked.sentinels, &mut wire);
    socket.write_all(&wire).await?;
    socket.flush().await?;
    let (mut input, mut scanner) = (Vec::new(), ReplyScanner::default());
    loop {
        while let Some(end) = scanner.scan(&input)? {
            let said: Vec<u8> = input.drain(..end).collect();
            match News::read(&said, &asked.sentinels).map_err(LinkError::Refused)? {
                // Nobody takes hints where nobody looks any more.
                News::Moved => drop(told.hints.send(sentinel.clone())),
                // What was told before it listened is asked for.
                News::Listening => told.whereabouts.wanted.notify_one(),
                News::Other => {}
            }
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Err(LinkError::Closed);
        }
    }
}
