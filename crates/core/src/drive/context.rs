//! What conversations go by: the layout, and what is known and counted beside it.

use crate::access::Users;
use crate::exchange::{ClusterRules, Env, ServerInfo};
use crate::layout::Layout;
use crate::stats::Stats;

/// A layout in use before one server, by a user who may do everything.
#[derive(Debug)]
pub struct Context<'l> {
    layout: &'l Layout,
    stats: Stats,
    users: Users,
    server: ServerInfo,
    cluster: Option<ClusterRules>,
    newest_commands: bool,
}

impl<'l> Context<'l> {
    /// For a layout that is in force on this server, its codecs open. What was written before may be spilled, so
    /// that writes look at what they replace.
    pub fn new(layout: &'l Layout, server: ServerInfo) -> Self {
        let context = Self::without_data(layout, server);
        layout.iter().for_each(|(index, _)| context.stats.namespace(index).note_spilled());
        context
    }

    /// The same where nothing was written before.
    pub fn without_data(layout: &'l Layout, server: ServerInfo) -> Self {
        let stats = Stats::new(layout.namespaces().len());
        Self { layout, stats, users: Users::open(), server, cluster: None, newest_commands: true }
    }

    /// The same before a cluster.
    #[must_use]
    pub fn before_cluster(mut self, rules: ClusterRules) -> Self {
        self.cluster = Some(rules);
        self
    }

    /// The same without what the server hasn't.
    #[must_use]
    pub fn without_newest_commands(mut self) -> Self {
        self.newest_commands = false;
        self
    }

    /// The layout.
    pub fn layout(&self) -> &'l Layout {
        self.layout
    }

    /// What the core takes from outside at a moment: the server's time in milliseconds since 1970, and numbers that are
    /// never drawn twice on that server.
    pub fn env<'e>(&'e self, now_ms: i64, nonces: &'e mut dyn FnMut() -> u64) -> Env<'e> {
        let Self { layout, stats, users, server, cluster, newest_commands } = self;
        Env {
            now_ms,
            nonces,
            server,
            layout,
            stats,
            users,
            tracking: None,
            cache: None,
            cluster: *cluster,
            newest_commands: *newest_commands,
            encoded: None,
            is_followed: false,
            is_read: false,
        }
    }
}
