//! Sets and hashes of many members by way of the server's payloads: what is dumped is what is restored, expiries of fields included.

use super::exchange::{Model, run};
use super::generate::KEYS;
use super::hello;
use crate::server::{Connection, Server};
use keyfold_core::collection::{Collection, Field, Hash, Set};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::resp::{Protocol, Reply};
use keyfold_core::string::{Collected, Held};

/// Later than any test runs.
const LATER_MS: i64 = 4_000_000_000_000;

fn payload(model: &Model, info: &ServerInfo, asks: &mut Connection) -> Vec<u8> {
    let dump = [b"DUMP".to_vec(), KEYS[0].to_vec()];
    let reply = run(model, &dump, 1, Protocol::Resp2, info, 1, asks).reply;
    let Ok(Reply::Bulk(payload)) = Reply::parse(&reply) else { panic!("{}", reply.escape_ascii()) };
    payload.to_vec()
}

fn text(prefix: &str, number: i64) -> Vec<u8> {
    format!("{prefix}{number}").into_bytes()
}

fn hash(fields: i64, expiry: fn(i64) -> Option<i64>) -> Collection {
    let field = |number| (text("f", number), Field { value: text("v", number), expires_at_ms: expiry(number) });
    Collection::Hash((0..fields).map(field).collect::<Hash>())
}

#[test]
fn what_is_dumped_is_what_is_restored() {
    let Some(server) = Server::start() else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut asks = server.connect();
        let info = hello(&mut asks, protocol);
        let has_expiring_fields = asks.one(&["hpexpiretime", "none", "fields", "1", "f"]).starts_with(b"*");
        let mut collections: Vec<Collection> = [1, 2500]
            .into_iter()
            .flat_map(|count| {
                let set = |prefix| Collection::Set((0..count).map(|number| text(prefix, number)).collect::<Set>());
                [set(""), set("x"), hash(count, |_| None)]
            })
            .collect();
        if has_expiring_fields {
            for fields in [1, 3, 200, 2500] {
                collections.push(hash(fields, |number| (number % 3 != 1).then_some(LATER_MS + number % 5)));
            }
        }
        for collection in collections {
            let (kind, len) = (collection.kind(), collection.len());
            let mut model = Model::default();
            model.held[0] = Held::Collection(Collected { collection, expires_at_ms: Some(9) });
            let payload = payload(&model, &info, &mut asks);
            let restore = [b"RESTORE".to_vec(), KEYS[1].to_vec(), b"8".to_vec(), payload];
            let outcome = run(&model, &restore, 1, Protocol::Resp2, &info, 1, &mut asks);
            assert_eq!(outcome.reply.escape_ascii().to_string(), "+OK\\r\\n");
            assert!(outcome.after.held[0] == outcome.after.held[1], "a {kind} of {len} is another one when restored");
        }
        assert_eq!(asks.one(&["dbsize"]), b":0\r\n");
    }
}
