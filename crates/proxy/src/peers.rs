//! Whether the other announced keyfolds are there. Clients that know clusters ask for the map when one is lost to them, and
//! are to find all slots with those that are left.
//!
//! Only one that was reached before and isn't any more is taken for away: an address that clients reach and this keyfold
//! never does (behind a load balancer, say) is left as it is. Any answer will do, a refusal as well, and so does a
//! connection that is closed at once: there is somebody.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::cluster::{Announced, Endpoint};
use keyfold_core::resp::write_command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::order::Task;

/// Between two looks at one.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same before it was reached for the first time: keyfolds start together.
const LOOK_AT_FIRST_EVERY: Duration = Duration::from_millis(100);
/// How long it may take to connect, and to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The task that looks at all of them.
pub(crate) fn watch(announced: Arc<Announced>) -> Task {
    Box::new(|_| Box::pin(watch_all(announced)) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn watch_all(announced: Arc<Announced>) {
    let each = LocalSet::new();
    for (at, endpoint) in announced.others() {
        each.spawn_local(watch_one(Arc::clone(&announced), at, endpoint.clone()));
    }
    each.await;
}

/// Asks one keyfold again and again, on one connection as long as that lives.
async fn watch_one(announced: Arc<Announced>, at: usize, endpoint: Endpoint) {
    let mut was_reached = false;
    let mut stream = None;
    loop {
        let is_there = timeout(ANSWERED_WITHIN, ask(&mut stream, &endpoint)).await.unwrap_or(false);
        if !is_there {
            stream = None;
        }
        was_reached |= is_there;
        if was_reached && announced.note_away(at, !is_there) {
            match is_there {
                true => tracing::info!(keyfold = %endpoint, "an announced keyfold is back; it has slots again"),
                false => tracing::warn!(
                    keyfold = %endpoint,
                    "an announced keyfold can't be reached; clients are told that the others have its slots"
                ),
            }
        }
        sleep(if was_reached { LOOK_EVERY } else { LOOK_AT_FIRST_EVERY }).await;
    }
}

/// Whether somebody is there.
async fn ask(stream: &mut Option<TcpStream>, endpoint: &Endpoint) -> bool {
    if let Some(connection) = stream
        && answers(connection).await
    {
        return true;
    }
    *stream = None;
    let Ok(mut connection) = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await else { return false };
    if answers(&mut connection).await {
        *stream = Some(connection);
    }
    true
}

/// Whether an answer comes before the connection is closed.
async fn answers(connection: &mut TcpStream) -> bool {
    let mut ping = Vec::new();
    write_command(&mut ping, &[b"PING"]);
    let mut answer = [0; 256];
    connection.write_all(&ping).await.is_ok() && matches!(connection.read(&mut answer).await, Ok(1..))
}
