//! What drives conversations, without I/O: whoever has sockets (the proxy, the tools, a binding of another language)
//! hands in what came and sends what is to go.
//!
//! ```text
//! client ──request──▶ Conversation ──commands──▶ wire ──▶ server
//! client ◀──answers── Conversation ◀──replies─── Pipe ◀── server
//! ```
//!
//! - [`Conversation`]: one client. What is under way, what is held back, and answers in the order of its requests.

mod conversation;

pub use conversation::{Conversation, Progress, Started};
