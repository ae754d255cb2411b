//! MONITOR: which requests of a client the others see, and how it becomes one who sees them.

use crate::command::{Command, Flags, Id};
use crate::redaction::shown_arguments;
use crate::resp::Answer;
use crate::session::route::Route;
use crate::session::{Plan, Session};

impl Session {
    /// MONITOR. Given twice it answers once, as the server does.
    pub(crate) fn begin_monitor(&mut self, answer: &mut Answer<'_>) {
        if !std::mem::replace(&mut self.monitoring, true) {
            self.joined.clients().monitors().add(self.joined.entry());
            answer.ok();
        }
    }

    /// Whether it gets the lines of MONITOR.
    pub fn is_monitoring(&self) -> bool {
        self.monitoring
    }

    /// The client sees nothing of others any more.
    pub(crate) fn end_monitor(&mut self) {
        if std::mem::take(&mut self.monitoring) {
            self.joined.clients().monitors().remove(self.peer.id);
        }
    }

    /// Shows a request that begins to those who monitor: what the server would show as carried out. Refused requests
    /// aren't shown, and queued ones with their EXEC.
    pub(crate) fn show_to_monitors(&self, plan: &Plan, args: &[&[u8]], now_ms: i64) {
        if !self.joined.clients().monitors().any() || plan.route.is_refusal() {
            return;
        }
        match &plan.route {
            Route::Queue(_) | Route::Probe { .. } => {}
            // Most likely there is no such command, and then nothing is carried out.
            _ if plan.command.is_none() => {}
            Route::Exec { .. } => {
                for queued in self.queue.iter().filter(|queue| !queue.spoilt).flat_map(|queue| &queue.commands) {
                    let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
                    self.show(queued.command, &args, self.database, now_ms);
                }
                self.show(plan.command, args, self.database, now_ms);
            }
            // The server shows these two in the database that they lead to.
            Route::Select { database: Some(database) } => self.show(plan.command, args, *database, now_ms),
            _ if plan.command.is_some_and(|command| command.id == Id::Reset) => {
                self.show(plan.command, args, self.peer.database, now_ms);
            }
            _ => self.show(plan.command, args, self.database, now_ms),
        }
    }

    fn show(&self, command: Option<&Command>, args: &[&[u8]], database: u32, now_ms: i64) {
        // What administrators do is not shown, as in the server.
        if command.is_some_and(|command| command.flags.contains(Flags::ADMIN)) {
            return;
        }
        let shown = shown_arguments(command, args);
        self.joined.clients().monitors().show(now_ms, database, self.entry().address(), &shown);
    }
}
