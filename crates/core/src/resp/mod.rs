//! RESP, the protocol of Redis and Valkey: requests in, replies through, answers out.
mod answer;

pub use answer::{Answer, Protocol, write_bulk, write_command};
