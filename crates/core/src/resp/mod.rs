//! RESP, the protocol of Redis and Valkey: requests in, replies through, answers out.
//!
//! The readers here are our own for three reasons that no RESP crate meets together: a request's errors
//! must be the server's own, inline commands included; a reply must pass on byte for byte without a value
//! being built of it; and both must resume where they stopped, in constant memory and without recursion,
//! so that neither a deeply nested nor a dribbled message costs more than its bytes.
mod answer;
mod reply;
mod request;
pub mod word;

pub use answer::{Answer, Protocol, write_bulk, write_command};
pub use reply::{Elements, Reply, ReplyError, ReplyFlow, ReplyScanner, Texts, array_head};
pub use request::{Args, ProtocolError, Read, RequestLimits, RequestReader};
