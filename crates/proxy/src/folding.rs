//! The layout in use, and its change while clients go on.
//!
//! One task reads the server's layout every few seconds. A new epoch is adopted by all workers together:
//! each stops beginning requests and says when those under way are answered; then all take the new layout
//! and go on. Requests wait for a round trip; none is answered by one layout and carried out by another.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::layout::{Layout, STORED_KEY};
use keyfold_core::resp::{Reply, write_command};
use keyfold_core::stats::Stats as NamespaceStats;
use tokio::sync::{mpsc, oneshot, watch};

use crate::upstream::Errand;
use crate::worker::{Order, Task, Worker};

/// How often the server is asked for its layout.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long requests under way may take while others are held back; then it is tried again later.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether they are answered.
const POLL: Duration = Duration::from_millis(1);

/// A layout in use, and what is counted under it. Replaced as a whole.
#[derive(Debug)]
pub(crate) struct Folding {
    pub(crate) layout: Arc<Layout>,
    pub(crate) namespaces: NamespaceStats,
}

impl Folding {
    /// A layout with all its counters at zero.
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        let namespaces = NamespaceStats::new(layout.namespaces().len());
        Self { layout, namespaces }
    }

    /// Tells the operator, once for each, of namespaces most of whose values don't fit.
    pub(crate) fn warn_of_spills(&self) {
        for (index, namespace) in self.layout.iter() {
            let stats = self.namespaces.namespace(index);
            if stats.counts().spills_much() && stats.warn_once() {
                tracing::warn!(
                    namespace = %namespace.template,
                    value_limit = namespace.value_limit,
                    "more than a tenth of the values written are over value_limit, and each takes a key of its own: \
                     raise value_limit in the layout, and hash-max-listpack-value on the server with it"
                );
            }
        }
    }

    /// The next layout, with the counts so far.
    fn followed_by(&self, layout: Layout) -> Self {
        let next = Self::new(Arc::new(layout));
        for (index, namespace) in self.layout.iter() {
            if let Some(kept) = next.layout.find(namespace.id) {
                next.namespaces.namespace(kept).add(self.namespaces.namespace(index).counts());
            }
        }
        next
    }

    /// Whether every key that is folded now lies in the same place under `next`.
    fn is_extended_by(&self, next: &Layout) -> bool {
        self.layout.iter().all(|(index, now)| {
            next.namespaces().get(index.0).is_some_and(|then| {
                then.id == now.id
                    && then.template == now.template
                    && then.placement == now.placement
                    && then.field_limit == now.field_limit
                    && then.codec == now.codec
            })
        })
    }
}

/// The task that keeps the workers' layout the server's.
pub(crate) fn keep(workers: Vec<mpsc::UnboundedSender<Order>>, current: watch::Sender<Arc<Folding>>) -> Task {
    Box::new(|errand| {
        Box::pin(keep_layout(errand.in_database(0), workers, current)) as Pin<Box<dyn Future<Output = ()>>>
    })
}

async fn keep_layout(
    mut errand: Errand,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    current: watch::Sender<Arc<Folding>>,
) {
    let mut refused = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(text) = read_layout(&mut errand).await else { continue };
        let now = Arc::clone(&current.borrow());
        if text == now.layout.to_stored() || refused.as_ref() == Some(&text) {
            continue;
        }
        match check(&now, &text) {
            Ok(layout) => {
                let next = Arc::new(now.followed_by(layout));
                if adopt(&workers, &next).await {
                    tracing::info!(epoch = %next.layout.epoch(), "the server's layout has changed; serving the new one");
                    current.send_replace(next);
                }
            }
            Err(reason) => {
                tracing::error!(
                    epoch = %now.layout.epoch(),
                    %reason,
                    "the layout in the server has changed and can't be served; going on with the one before. \
                     Put it back with `keyfold layout push`, or restart keyfold with the layout that is meant"
                );
                refused = Some(text);
            }
        }
    }
}

/// The server's layout; none where it can't be read just now. One that has gone is reported as it comes back.
async fn read_layout(errand: &mut Errand) -> Option<String> {
    let mut command = Vec::new();
    write_command(&mut command, &[b"GET", STORED_KEY]);
    let replies = errand.request(&command, 1).await.ok()?;
    match Reply::parse(replies.first()?) {
        Ok(Reply::Bulk(text)) => String::from_utf8(text.to_vec()).ok(),
        _ => None,
    }
}

fn check(now: &Folding, text: &str) -> Result<Layout, String> {
    let layout = Layout::from_stored(text).map_err(|error| error.to_string())?;
    if layout.epoch() <= now.layout.epoch() {
        return Err(format!("its epoch {} is not after {}", layout.epoch(), now.layout.epoch()));
    }
    if !now.is_extended_by(&layout) {
        return Err("keys that are folded now would lie elsewhere".to_owned());
    }
    Ok(layout)
}

/// Has all workers take a layout at one moment; false where requests under way took too long.
async fn adopt(workers: &[mpsc::UnboundedSender<Order>], next: &Arc<Folding>) -> bool {
    let mut quiet = Vec::new();
    for worker in workers {
        let (sender, receiver) = oneshot::channel();
        if worker.send(Order::Pause(sender)).is_ok() {
            quiet.push(receiver);
        }
    }
    let mut all_quiet = true;
    for receiver in quiet {
        all_quiet &= receiver.await.unwrap_or(false);
    }
    for worker in workers {
        let _ = worker.send(Order::Resume(all_quiet.then(|| Arc::clone(next))));
    }
    all_quiet
}

impl Worker {
    /// Holds requests back, and says once those under way are answered, or that they take too long.
    pub(crate) async fn pause(self: Rc<Self>, done: oneshot::Sender<bool>) {
        self.paused.set(true);
        let quiet = async {
            while !self.clients.borrow().iter().all(|(_, client)| client.is_quiet()) {
                tokio::time::sleep(POLL).await;
            }
        };
        let _ = done.send(tokio::time::timeout(PATIENCE, quiet).await.is_ok());
    }

    /// Goes on, with another layout where there is one.
    pub(crate) fn resume(&self, next: Option<Arc<Folding>>) {
        if let Some(next) = next {
            *self.folding.borrow_mut() = next;
        }
        self.paused.set(false);
        for (_, client) in self.clients.borrow().iter() {
            client.wake();
        }
    }
}
