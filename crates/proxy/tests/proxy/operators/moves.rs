//! How far a move has come, as the tool that carries it out says.

use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_proxy::admin::FullStatus;

use super::{ask, with_admin};
use crate::stage::{config_for, eventually, serve, start_server};

#[test]
fn operators_are_told_how_far_a_move_is_and_where_it_stopped() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    let file = LayoutFile::parse("[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n").unwrap();
    config.layout = Layout::default().plan_fold(&file).unwrap().layout.into();
    with_admin(&mut config);
    let proxy = serve(&server, config);
    let mut tool = server.connect().unwrap();
    let mut say = |word: &str, lives_ms: &str| {
        let said = tool.call(&[b"SET", b"keyfold:{home}:move", word.as_bytes(), b"PX", lives_ms.as_bytes()]);
        assert_eq!(said.unwrap(), b"+OK\r\n");
    };
    let status = || serde_json::from_str::<FullStatus>(&ask(&proxy, "/status").body).unwrap();
    let moved = || status().move_progress.map(|progress| progress.moved);
    assert_eq!(moved(), None);

    say("1 20000 100000 4000", "3600000");
    eventually("it is heard", || moved() == Some(20_000));
    let progress = status().move_progress.unwrap();
    assert_eq!((progress.keys, progress.keys_per_second, progress.stopped), (100_000, 5000, false));
    assert_eq!(progress.left_ms, Some(16_000));
    let metrics = ask(&proxy, "/metrics").body;
    for line in ["keyfold_move_moved_keys 20000\n", "keyfold_move_keys 100000\n", "keyfold_move_silence_seconds "] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let is_warned = || status().warnings.iter().any(|warning| warning.code == "move_stopped");
    assert!(!is_warned());

    // The tool died a minute ago.
    say("1 30000 100000 6000", "3540000");
    eventually("it is heard", || moved() == Some(30_000));
    let progress = status().move_progress.unwrap();
    assert!(progress.stopped && progress.left_ms.is_none() && progress.silent_ms >= 60_000, "{progress:?}");
    assert!(is_warned());

    say("1 \u{1b}[2J x", "3600000");
    eventually("what isn't understood is nothing", || moved().is_none());
    assert!(!is_warned() && !ask(&proxy, "/metrics").body.contains("keyfold_move_moved_keys 3"));
}
