//! The proxy before a real server.
//!
//! | module | what it asks |
//! | --- | --- |
//! | `damage` | what of values that no codec wrote? |
//! | `order` | do answers come in the order of the requests, however the bytes come? |
//! | `limits` | does nothing grow without bound, and does one client not harm another? |
//! | `leaving` | what of clients that go halfway? |
//! | `loss` | what when the server goes? |
//! | `own_lane` | do blocking commands, transactions and subscriptions keep to their client? |
//! | `stopping` | is every accepted request answered? |
//! | `transport` | TLS and unix sockets, both ways |
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
mod damage;
mod folding;
mod leaving;
mod limits;
mod loss;
mod order;
mod own_lane;
mod stage;
mod stopping;
mod transport;
