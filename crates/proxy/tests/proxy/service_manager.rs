//! What the service manager is told of a proxy, and when it hears nothing more.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use keyfold_proxy::ServiceManager;
use keyfold_testkit::Wire;

use crate::stage::{address, call, eventually, stage_with};

/// All that was said.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn manager(&self, watchdog: Option<Duration>) -> ServiceManager {
        let said = Arc::clone(&self.0);
        let say = move |lines: &str| {
            said.lock().unwrap().extend(lines.lines().map(str::to_owned));
            Ok(())
        };
        ServiceManager::spoken_to_by(say, watchdog)
    }

    fn count(&self, line: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| *said == line).count()
    }

    /// Where it was said first.
    fn first(&self, begins: &str) -> Option<usize> {
        self.0.lock().unwrap().iter().position(|said| said.starts_with(begins))
    }
}

#[test]
fn a_worker_that_hangs_is_not_vouched_for() {
    let stage = stage_with(|config| config.threads = Some(2.try_into().unwrap()));
    let heard = Heard::default();
    stage.proxy.tell(heard.manager(Some(Duration::from_millis(100)))).unwrap();
    assert_eq!(heard.first("READY=1"), Some(0));
    eventually("it says how it fares", || heard.first("STATUS=serving 0 clients; 0 namespaces folded").is_some());
    eventually("its workers run", || heard.count("WATCHDOG=1") > 5);

    let (release, released) = mpsc::channel::<()>();
    stage.proxy.spawn(Box::new(move |_| {
        Box::pin(async move {
            let _ = released.recv();
        })
    }));
    eventually("it is noticed", || heard.first("STATUS=not ready: a worker has not run for 11 s").is_some());
    let before = heard.count("WATCHDOG=1");
    eventually("it is said again", || heard.first("STATUS=not ready: a worker has not run for 12 s").is_some());
    assert_eq!(heard.count("WATCHDOG=1"), before);

    release.send(()).unwrap();
    eventually("its workers run again", || heard.count("WATCHDOG=1") > before);
}

#[test]
fn a_server_that_is_away_is_told_and_is_no_reason_to_start_again() {
    let stage = stage_with(|_| {});
    let heard = Heard::default();
    stage.proxy.tell(heard.manager(Some(Duration::from_millis(100)))).unwrap();
    eventually("it serves", || heard.first("STATUS=serving").is_some());
    drop(stage.server);
    eventually("the server is missed", || heard.first("STATUS=not ready: ").is_some());
    let before = heard.count("WATCHDOG=1");
    eventually("its workers run", || heard.count("WATCHDOG=1") > before);
}

#[test]
fn the_end_is_told_with_who_is_still_to_be_answered() {
    let stage = stage_with(|_| {});
    let heard = Heard::default();
    stage.proxy.tell(heard.manager(None)).unwrap();
    let mut wire = Wire::connect(address(&stage.proxy)).unwrap();
    assert_eq!(call(&mut wire, "PING"), "+PONG\r\n");
    stage.proxy.stop();
    eventually("it says that it stops", || heard.first("STOPPING=1").is_some());
    eventually("and with whom", || heard.first("STATUS=stopping; ").is_some());
    assert!(heard.first("EXTEND_TIMEOUT_USEC=").is_some());
    assert!(heard.first("READY=1") < heard.first("STOPPING=1"));
    assert_eq!(heard.count("WATCHDOG=1"), 0, "nobody watches over it");
}
