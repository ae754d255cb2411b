//! Sockets around the core.
