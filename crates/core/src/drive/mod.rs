//! What drives conversations, without I/O: whoever has sockets (the proxy, the tools, a binding of another language)
//! hands in what came and sends what is to go.
//!
//! ```text
//! client ──request──▶ Conversation ──commands──▶ wire ──▶ server
//! client ◀──answers── Conversation ◀──replies─── Pipe ◀── server
//! ```
//!
//! - [`Conversation`]: one client. What is under way, what is held back, and answers in the order of its requests.
//! - [`Pipe`]: one connection. Bytes in, and whose reply they are.
//! - [`Joining`]: commands on one bucket that follow each other on a connection, sent as one.
//! - [`Opening`]: how a connection comes to see the layout that is in force, and is found by whoever changes it.
//! - [`Context`]: what both go by, the layout first of all.
//! - [`Conversations`]: all of these for one connection and many commands that stand each for itself.

mod context;
mod conversation;
mod conversations;
mod following;
mod held;
mod joining;
mod metering;
mod opening;
mod parts;
mod pipe;
mod replica_read;

pub use context::Context;
pub use conversation::{Conversation, Progress, Started};
pub use conversations::{Conversations, DriveError, Outside};
pub use joining::{Joining, Written};
pub use opening::{OpenError, Opened, Opening};
pub use parts::{PartRequest, SentPart};
pub use pipe::Pipe;
