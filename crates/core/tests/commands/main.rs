//! What commands do: beside plain servers, beside a model, and to values that expire meanwhile.
#![expect(clippy::disallowed_methods, reason = "a test against a server does I/O")]
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod bits;
mod expected;
mod expiry_while_written;
mod hashes;
mod model;
mod server;
mod sets;
mod strings;
mod text_tables;
