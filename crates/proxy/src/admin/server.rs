//! Lets operators in, and bounds what each may take.
//!
//! All of it runs on one thread of its own. A connection that is slow, says nothing or takes nothing is closed after its
//! time; where there are as many as may be, the oldest makes room for one that comes, so that nobody keeps a probe out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, TlsStream};

use super::routes::Routes;
use crate::listen::Listener;
use crate::shutdown::Phase;
use crate::socket::Socket;
use crate::tls::Current;

/// Connections at one time.
const MOST_CONNECTIONS: usize = 64;

/// For a TLS handshake, and for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// A head of more bytes is refused.
const HEAD_BYTES: usize = 16 * 1024;

/// A connection is ended after so long, between two requests where it can be.
const LIFE: Duration = Duration::from_secs(60);

/// For the last answer to be taken after that.
const LAST_ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long accepting rests after the system refused it, as when descriptors have run out.
const REST: Duration = Duration::from_millis(100);

/// A listener within the runtime.
enum Accepting {
    Tcp(TcpListener, Option<Arc<Current<ServerConfig>>>),
    Unix(UnixListener),
}

/// Where an accepted connection came in.
enum Arrived {
    Tcp(tokio::net::TcpStream, Option<Arc<ServerConfig>>),
    Unix(tokio::net::UnixStream),
}

/// Serves operators until all workers have ended, each of which holds one end of `workers`; or the proxy is ended at once; or
/// operators have `left`, who come in by another keyfold from now on.
/// Blocks its thread.
pub(crate) fn run(
    listener: Listener,
    routes: &Arc<Routes>,
    mut phase: watch::Receiver<Phase>,
    mut left: watch::Receiver<bool>,
    mut workers: mpsc::Receiver<Infallible>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let accepting = Accepting::new(listener)?;
        // Each connection holds one end; the other one hears when all have ended.
        let (connected, mut answered) = mpsc::channel(1);
        let told = left.clone();
        tokio::select! {
            () = accepting.accept_all(routes, connected, told) => {}
            () = routes.keep_history() => {}
            () = until(&mut left) => {}
            _ = workers.recv() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Ended) => return Ok(()),
        }
        drop(accepting);
        if *left.borrow() {
            // Those that are connected are answered what they have asked, and come again by the other keyfold.
            let _ = tokio::time::timeout(LAST_ANSWER_WITHIN, answered.recv()).await;
        }
        Ok(())
    })
}

impl Accepting {
    fn new(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?, None),
            Listener::Tls(listener, tls) => Self::Tcp(TcpListener::from_std(listener)?, Some(tls)),
            Listener::Unix(listener) => Self::Unix(UnixListener::from_std(listener)?),
        })
    }

    async fn accept_all(&self, routes: &Arc<Routes>, connected: mpsc::Sender<Infallible>, left: watch::Receiver<bool>) {
        let mut connections: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let arrived = match self.accept().await {
                Ok(arrived) => arrived,
                Err(error) => {
                    tracing::warn!(%error, "can't accept an operator");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            connections.retain(|connection| !connection.is_finished());
            if connections.len() >= MOST_CONNECTIONS
                && let Some(oldest) = connections.pop_front()
            {
                oldest.abort();
            }
            let (connected, routes, left) = (connected.clone(), Arc::clone(routes), left.clone());
            let serving = tokio::spawn(async move {
                serve(arrived, routes, left).await;
                drop(connected);
            });
            connections.push_back(serving.abort_handle());
        }
    }

    async fn accept(&self) -> io::Result<Arrived> {
        Ok(match self {
            Self::Tcp(listener, tls) => Arrived::Tcp(listener.accept().await?.0, tls.as_ref().map(|tls| tls.now())),
            Self::Unix(listener) => Arrived::Unix(listener.accept().await?.0),
        })
    }
}

/// Waits until operators come in by another keyfold.
async fn until(left: &mut watch::Receiver<bool>) {
    if left.wait_for(|left| *left).await.is_err() {
        // Nothing can be taken over.
        std::future::pending::<()>().await;
    }
}

/// Serves one connection to its end.
async fn serve(arrived: Arrived, routes: Arc<Routes>, mut left: watch::Receiver<bool>) {
    let socket = match tokio::time::timeout(HEAD_WITHIN, greet(arrived)).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return tracing::debug!(%error, "an operator did not get as far as a request"),
        Err(_) => return tracing::debug!("an operator took too long over the TLS handshake"),
    };
    let service = service_fn(|request: Request<Incoming>| {
        let answer = routes.answer(request.method(), request.uri().path(), request.headers());
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let time_is_up = async {
        let _ = tokio::time::timeout(LIFE, until(&mut left)).await;
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = time_is_up => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_ANSWER_WITHIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an operator's connection ended");
    }
}

async fn greet(arrived: Arrived) -> io::Result<Socket> {
    Ok(match arrived {
        Arrived::Unix(stream) => Socket::Unix(stream),
        Arrived::Tcp(stream, None) => Socket::Tcp(stream),
        Arrived::Tcp(stream, Some(tls)) => {
            let stream = TlsAcceptor::from(tls).accept(stream).await?;
            Socket::Tls(Box::new(TlsStream::Server(stream)))
        }
    })
}
