//! How a tool shares the machine's processors with others.

use std::panic::resume_unwind;
use std::thread;

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

/// Does this work so, on a thread of its own, for a tool that also changes the layout: while it does that clients wait for it,
/// and a thread can't be given back the priority that it gave away. Where a priority is a whole process's, as on macOS, the tool
/// keeps the lowest from then on.
pub fn while_giving_way<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        give_way();
        work()
    };
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_the_work_gives_way() {
        let before = getpriority_process(None).unwrap();
        assert_eq!(while_giving_way(|| getpriority_process(None).unwrap()), LOWEST);
        assert_eq!(getpriority_process(None).unwrap(), before);
        let panic = std::panic::catch_unwind(|| while_giving_way(|| panic!("of the work"))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"of the work"));
    }
}
