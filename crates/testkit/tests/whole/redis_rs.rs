//! A session of redis-rs: with the server or proxy at KEYFOLD_ADDR, or with every server at hand.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::found;
use redis::{Client, Commands, Connection, ErrorKind, RedisResult, ServerErrorKind, pipe};

const LOGINS: &str = "user:7:logins";
const SESSION: &str = "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10";

#[test]
fn a_session_in_both_protocols() {
    match env::var("KEYFOLD_ADDR") {
        Ok(address) => both_protocols(&address).unwrap(),
        Err(_) => {
            for binary in found() {
                let server = binary.start(&[]).unwrap();
                both_protocols(&server.address().to_string()).unwrap();
            }
        }
    }
}

fn both_protocols(address: &str) -> RedisResult<()> {
    for protocol in ["resp2", "resp3"] {
        session(&Client::open(format!("redis://{address}/?protocol={protocol}"))?)?;
    }
    Ok(())
}

fn session(client: &Client) -> RedisResult<()> {
    let mut connection = client.get_connection()?;
    let () = redis::cmd("FLUSHALL").query(&mut connection)?;
    values(&mut connection)?;
    expiries(&mut connection)?;
    pipelines(&mut connection)?;
    transactions(&mut connection, client)?;
    refusals(&mut connection)?;
    pubsub(&mut connection, client)?;
    blocking(&mut connection, client)
}

fn values(connection: &mut Connection) -> RedisResult<()> {
    let () = connection.set(LOGINS, 41)?;
    assert_eq!(connection.incr::<_, _, i64>(LOGINS, 1)?, 42);
    assert!(!connection.set_nx::<_, _, bool>(LOGINS, 1)?);
    for value in [&b""[..], b"\x00\x01\xff\r\n", &[b'v'; 65], &[7; 100_000]] {
        let () = connection.set(SESSION, value)?;
        assert_eq!(connection.get::<_, Vec<u8>>(SESSION)?, value);
    }
    let () = connection.mset(&[("post:1:title", "T"), ("post:1:body", "B")])?;
    let read: Vec<Option<String>> = connection.mget(&["post:1:title", "none", "post:1:body"])?;
    assert_eq!(read, [Some("T".to_owned()), None, Some("B".to_owned())]);
    assert_eq!(connection.append::<_, _, u64>("post:1:title", "!")?, 2);
    assert_eq!(connection.del::<_, u64>(&["post:1:title", "post:1:body"])?, 2);
    Ok(())
}

fn expiries(connection: &mut Connection) -> RedisResult<()> {
    let () = connection.set_ex(SESSION, "token", 1000)?;
    assert!((991..=1000).contains(&connection.ttl::<_, i64>(SESSION)?));
    assert!(connection.persist::<_, bool>(SESSION)?);
    assert_eq!(connection.ttl::<_, i64>(SESSION)?, -1);
    let () = connection.pexpire(SESSION, 1)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while connection.exists::<_, bool>(SESSION)? && Instant::now() < deadline {}
    assert_eq!(connection.get::<_, Option<String>>(SESSION)?, None);
    Ok(())
}

fn pipelines(connection: &mut Connection) -> RedisResult<()> {
    let keys: Vec<String> = (0..200).map(|number| format!("user:{number}:logins")).collect();
    let mut pipeline = pipe();
    for (number, key) in keys.iter().enumerate() {
        pipeline.set(key, number).ignore().get(key);
    }
    let read: Vec<usize> = pipeline.query(connection)?;
    assert_eq!(read, (0..200).collect::<Vec<_>>());
    let mut scanned = connection.scan_match::<_, String>("user:*:logins")?.collect::<RedisResult<Vec<_>>>()?;
    scanned.sort();
    scanned.dedup();
    let mut sorted = keys;
    sorted.sort();
    assert_eq!(scanned, sorted);
    Ok(())
}

fn transactions(connection: &mut Connection, client: &Client) -> RedisResult<()> {
    let mut other = client.get_connection()?;
    let () = connection.set(LOGINS, 1)?;
    let both: (i64, i64) = pipe().atomic().incr(LOGINS, 1).get(LOGINS).query(connection)?;
    assert_eq!(both, (2, 2));
    let mut attempts = 0;
    let (written,): (i64,) = redis::transaction(connection, &[LOGINS], |connection, pipeline| {
        let seen: i64 = connection.get(LOGINS)?;
        attempts += 1;
        if attempts == 1 {
            let () = other.set(LOGINS, 10)?;
        }
        pipeline.set(LOGINS, seen + 1).ignore().get(LOGINS).query(connection)
    })?;
    assert_eq!((attempts, written), (2, 11));
    Ok(())
}

fn refusals(connection: &mut Connection) -> RedisResult<()> {
    let () = connection.set(LOGINS, "text")?;
    let refused = connection.incr::<_, _, i64>(LOGINS, 1).expect_err("a text is neither a number nor a list");
    assert_eq!(refused.kind(), ErrorKind::Server(ServerErrorKind::ResponseError));
    let refused = connection.lpush::<_, _, i64>(LOGINS, "a").expect_err("a text is neither a number nor a list");
    assert_eq!(refused.code(), Some("WRONGTYPE"));
    Ok(())
}

fn pubsub(connection: &mut Connection, client: &Client) -> RedisResult<()> {
    let mut subscriber = client.get_connection()?;
    let mut subscriber = subscriber.as_pubsub();
    subscriber.subscribe("news")?;
    assert_eq!(connection.publish::<_, _, i64>("news", &b"\x00hello"[..])?, 1);
    let message = subscriber.get_message()?;
    assert_eq!((message.get_channel_name(), message.get_payload_bytes()), ("news", &b"\x00hello"[..]));
    Ok(())
}

fn blocking(connection: &mut Connection, client: &Client) -> RedisResult<()> {
    let mut other = client.get_connection()?;
    let pusher = thread::spawn(move || other.rpush::<_, _, i64>("list", "item"));
    let popped: (String, String) = connection.blpop("list", 10.0)?;
    assert_eq!(popped, ("list".to_owned(), "item".to_owned()));
    assert_eq!(pusher.join().expect("the other connection pushes")?, 1);
    Ok(())
}
