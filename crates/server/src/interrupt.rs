//! Ctrl-C, for work that has something to put away first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether the user wants the work to end. The first signal says so; the second ends the program at once.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Follows SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// The system lets none be followed.
    pub fn listen() -> anyhow::Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset.
            flag::register_conditional_default(signal, Arc::clone(&wanted))?;
            flag::register(signal, Arc::clone(&wanted))?;
        }
        Ok(Self(wanted))
    }

    /// One that never comes, for work beside a program's own that follows signals itself.
    pub fn never() -> Self {
        Self(Arc::default())
    }

    /// Whether the first signal came.
    pub fn wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The user wanted the work to end, and it has ended for that.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;
