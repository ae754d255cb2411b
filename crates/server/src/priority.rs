//! How a tool shares the machine's processors with others.

use rustix::process::setpriority_process;

/// What a system calls the lowest priority that still runs.
const LOWEST: i32 = 19;

/// Has this thread, and what it starts from now on, run where nobody else wants the processor. A tool that walks over a whole
/// keyspace often runs beside the server or a keyfold, and would keep a client's request waiting for its slice of time
/// (`docs/moving.md`, "How fast"). Where nobody else wants it, it costs nothing.
pub fn give_way() {
    // Wherever it is not allowed, nothing is lost but that courtesy.
    if let Err(error) = setpriority_process(None, LOWEST) {
        tracing::debug!(%error, "this process keeps its priority");
    }
}
