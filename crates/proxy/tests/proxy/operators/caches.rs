//! A cache that is kept within its memory: what of it operators see, everywhere the same.

use keyfold_core::layout::{CachePolicy, CacheRules, Layout, MaxMemory};
use keyfold_core::status::Status;
use keyfold_proxy::Handle;
use keyfold_proxy::admin::FullStatus;
use keyfold_testkit::{Server, Wire};

use super::counts::{scrape, sum, value};
use super::{ask, with_admin};
use crate::stage::{address, call, commands, config_for, eventually, serve, start_server};

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n";

/// What is written beyond what fits.
const ROOM_BYTES: u64 = 2_000_000;

fn used_memory(server: &Server) -> u64 {
    let info = call(&mut server.connect().unwrap(), "INFO memory");
    info.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse().ok()).expect("it says so")
}

/// A keyfold that keeps a cache of so much on a server.
fn cache_before(server: &Server, max_memory: MaxMemory) -> Handle {
    let mut config = config_for(server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    config.cache.rules = Some(CacheRules { policy: CachePolicy::TinyLfu, max_memory, plain_keys: true });
    with_admin(&mut config);
    serve(server, config)
}

fn status(proxy: &Handle) -> FullStatus {
    serde_json::from_str(&ask(proxy, "/status").body).unwrap()
}

#[test]
fn what_leaves_a_cache_is_told_by_namespace_and_reason_and_how_old_it_is() {
    let server = start_server(&[]);
    let limit = used_memory(&server) + ROOM_BYTES;
    let proxy = cache_before(&server, MaxMemory::Bytes(limit));
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    eventually("it evicts", || {
        status(&proxy).keyfold.cache.is_some_and(|cache| cache.evicts && cache.max_bytes == limit)
    });
    let long = "v".repeat(40);
    let (mut turn, mut refused) = (0, 0);
    eventually("keys leave, plain ones too", || {
        let key = |id: usize| if id.is_multiple_of(4) { format!("plain:{id}") } else { format!("user:{id}") };
        let texts: Vec<_> = (turn * 200..(turn + 1) * 200).map(|id| format!("SET {} {long}", key(id))).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        wire.send_bytes(&commands(&texts)).unwrap();
        // Where this machine is slow, memory may be full for a while.
        for _ in texts {
            match &*wire.reply().unwrap() {
                b"+OK\r\n" => {}
                other if other.starts_with(b"-OOM ") => refused += 1,
                other => panic!("{}", other.escape_ascii()),
            }
        }
        turn += 1;
        let now = status(&proxy).keyfold;
        // Ages are noted when keys are chosen, some hundreds at once on a slow machine, and keys counted when they are gone.
        now.namespaces[0].evicted > 2_000 && now.cache.is_some_and(|cache| cache.plain_evicted > 500)
    });
    assert!(call(&mut wire, "INFO keyfold").contains("keyfold_cache:policy=tinylfu,evicts=1"));
    // What is being counted meanwhile is waited for.
    let mut last = None;
    eventually("all say the same", || {
        let full = status(&proxy);
        let metrics = scrape(&proxy);
        let info = Status::read_info(&call(&mut wire, "INFO keyfold")).unwrap();
        let (namespace, cache) = (&full.keyfold.namespaces[0], full.keyfold.cache.as_ref().unwrap());
        let evicted = sum(&metrics, "keyfold_evicted_keys_total");
        let of_info = (info.namespaces[0].evicted, info.cache.as_ref().map(|cache| cache.evicted_ages.keys));
        // Names are counted once a second.
        let is_same = cache.keys > 100
            && evicted == namespace.evicted as f64
            && value(&metrics, "keyfold_evicted_plain_keys_total") == Some(cache.plain_evicted as f64)
            && value(&metrics, "keyfold_evicted_age_seconds_count") == Some(cache.evicted_ages.keys as f64)
            && of_info == (namespace.evicted, Some(cache.evicted_ages.keys));
        last = Some((full, metrics));
        is_same
    });
    let (full, metrics) = last.unwrap();
    let (namespace, cache) = (&full.keyfold.namespaces[0], full.keyfold.cache.as_ref().unwrap());
    assert!(namespace.evicted > 0 && namespace.evicted_new <= namespace.evicted, "{namespace:?}");
    assert!(metrics.contains("keyfold_evicted_keys_total{namespace=\"user:{id:int}\",reason=\"new\"} "), "{metrics}");
    assert!(cache.used_bytes < limit * 2 && cache.counters_bytes > 0, "{cache:?}");
    // A sample of one in sixteen, by chance.
    let all = namespace.evicted + cache.plain_evicted;
    assert!((all / 40..=all / 6).contains(&cache.evicted_ages.keys), "{} of {all}", cache.evicted_ages.keys);
    assert_eq!((cache.refused, cache.evicted_by_server), (refused, 0), "{cache:?}");
    assert_eq!(value(&metrics, "keyfold_cache_waited_writes_total"), Some(cache.waited as f64));
    assert_eq!(value(&metrics, "keyfold_cache_refused_writes_total"), Some(refused as f64));
    assert!(full.warnings.iter().all(|warning| warning.code != "evicted_by_server"), "{:?}", full.warnings);
    for (name, wanted) in [("keyfold_cache_evicts", 1.0), ("keyfold_cache_max_memory_bytes", limit as f64)] {
        assert_eq!(value(&metrics, name), Some(wanted), "{name}");
    }
}

#[test]
fn where_no_cache_is_kept_nothing_is_said_of_one() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    with_admin(&mut config);
    let proxy = serve(&server, config);
    call(&mut Wire::connect(address(&proxy)).unwrap(), "SET user:1 v");
    assert_eq!(status(&proxy).keyfold.cache, None);
    assert!(!scrape(&proxy).contains("keyfold_cache_") && !scrape(&proxy).contains("keyfold_evicted_"));
}

#[test]
fn a_server_without_a_limit_is_warned_of_until_it_has_one() {
    let server = start_server(&[]);
    let proxy = cache_before(&server, MaxMemory::Percent(80));
    let unlimited = || status(&proxy).warnings.into_iter().filter(|warning| warning.code == "cache_unlimited").count();
    eventually("it is warned of", || unlimited() == 1);
    let limit = used_memory(&server) * 100;
    call(&mut server.connect().unwrap(), &format!("CONFIG SET maxmemory {limit}"));
    eventually("it has one", || unlimited() == 0);
    let cache = status(&proxy).keyfold.cache.unwrap();
    assert_eq!((cache.max_bytes, cache.unlimited), (limit / 100 * 80, 0));
}

#[test]
fn a_server_that_evicts_by_itself_is_warned_of() {
    let server = start_server(&["--maxmemory-policy", "allkeys-lru"]);
    // keyfold is to come in far too late.
    let proxy = cache_before(&server, MaxMemory::Bytes(1 << 40));
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    eventually("it watches", || status(&proxy).keyfold.cache.is_some_and(|cache| cache.used_bytes > 0));
    for at in 0..2000 {
        call(&mut wire, &format!("SET plain:{at} {}", "v".repeat(1000)));
    }
    call(&mut server.connect().unwrap(), &format!("CONFIG SET maxmemory {}", used_memory(&server) - 500_000));
    eventually("it is warned of", || status(&proxy).warnings.iter().any(|warning| warning.code == "evicted_by_server"));
    assert!(value(&scrape(&proxy), "keyfold_evicted_by_server_keys_total").is_some_and(|keys| keys > 0.0));
}
