//! A session of redis-rs's cluster client with two announced keyfolds before a cluster, one of which is killed at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use keyfold_core::layout::{Attempt, Layout};
use keyfold_testkit::cluster::Options;
use keyfold_testkit::patience::wait_for;
use keyfold_testkit::servers::newest_and_others;
use keyfold_testkit::{Cluster, Subject};
use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{Client, Commands, RedisResult, cmd};

const LAYOUT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";
const USERS: usize = 1000;

fn user(number: usize) -> String {
    format!("user:{number}")
}

#[test]
fn keyfolds_are_a_cluster_to_redis_rs() {
    let (newest, _) = newest_and_others();
    for binary in newest {
        let cluster = Cluster::start(&binary, 3, 0, &Options::default()).unwrap();
        cluster.put_in_force(&Layout::parse_file(LAYOUT).unwrap().with_attempt(Attempt(1))).unwrap();
        let mut keyfolds = Subject::announced(&cluster, 2).unwrap();
        let urls: Vec<String> = keyfolds.iter().map(|keyfold| format!("redis://{}", keyfold.address())).collect();
        let client = ClusterClient::builder(urls).response_timeout(Duration::from_secs(20)).build().unwrap();
        let mut connection = client.get_connection().unwrap();
        let session = values(&mut connection).and_then(|()| many_keys(&mut connection));
        session.and_then(|()| walks(&keyfolds)).unwrap();
        keyfolds[1].kill();
        // A connection of its keeps to the map that it has where a node doesn't answer; another asks for it.
        wait_for("all keys to be in reach", Duration::from_secs(30), || {
            let mut connection = client.get_connection().map_err(|error| error.to_string())?;
            let read = |number| connection.get::<_, usize>(user(number)).map_err(|error| error.to_string());
            (0..USERS).map(read).collect::<Result<Vec<_>, _>>()
        })
        .map(|read| assert_eq!(read, (0..USERS).collect::<Vec<_>>()))
        .unwrap();
    }
}

fn values(connection: &mut ClusterConnection) -> RedisResult<()> {
    let mut written = cluster_pipe();
    (0..USERS).for_each(|number| _ = written.set(user(number), number).ignore());
    let () = written.query(connection)?;
    let mut read = cluster_pipe();
    (0..USERS).for_each(|number| _ = read.get(user(number)));
    assert_eq!(read.query::<Vec<usize>>(connection)?, (0..USERS).collect::<Vec<_>>());
    assert_eq!(connection.incr::<_, _, i64>(user(41), 1)?, 42);
    assert_eq!(connection.decr::<_, _, i64>(user(41), 1)?, 41);
    Ok(())
}

fn many_keys(connection: &mut ClusterConnection) -> RedisResult<()> {
    // redis-rs takes keys of all slots apart by itself.
    let keys: Vec<String> = (0..USERS).map(user).collect();
    assert_eq!(connection.mget::<_, Vec<usize>>(&keys)?, (0..USERS).collect::<Vec<_>>());
    let () = connection.mset(&[("cart:{7}:1", "a"), ("cart:{7}:2", "b")])?;
    assert_eq!(connection.del::<_, u64>(&["cart:{7}:1", "cart:{7}:2", "cart:{7}:3"])?, 2);
    // Its cluster client has no transactions.
    let script = "return redis.call('INCR', KEYS[1])";
    assert_eq!(cmd("EVAL").arg(script).arg(1).arg("plain:{7}").query::<i64>(connection)?, 1);
    Ok(())
}

/// Each keyfold shows the keys of all.
fn walks(keyfolds: &[Subject]) -> RedisResult<()> {
    for keyfold in keyfolds {
        let mut connection = Client::open(format!("redis://{}", keyfold.address()))?.get_connection()?;
        let found: BTreeSet<String> = connection.scan_match("user:*")?.collect::<RedisResult<_>>()?;
        assert_eq!(found, (0..USERS).map(user).collect::<BTreeSet<_>>());
    }
    Ok(())
}
