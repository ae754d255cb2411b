//! What answers at an address may be a keyfold. The tools look at what a server itself holds, and would find none of the
//! buckets through it: they say so, and which server is behind.

use anyhow::bail;
use keyfold_proxy::address::ServerAddress;

use crate::info::Info;

/// Refuses a keyfold, by what it answers to `INFO keyfold` at `address`. A server knows no such section, and answers nothing.
///
/// # Errors
/// It is a keyfold.
pub(crate) fn refuse_keyfold(info: &Info, address: &ServerAddress) -> anyhow::Result<()> {
    let Some(version) = info.field("keyfold_version") else { return Ok(()) };
    let behind = match info.field("keyfold_server") {
        Some(behind) => format!(": {behind}"),
        None => ", as its --upstream does".to_owned(),
    };
    bail!(
        "what answers at {address} is a keyfold (version {version}), and this is done on the server itself; name the server \
         behind it{behind}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(info: &str) -> Option<String> {
        let address = "redis://127.0.0.1:6380".parse().unwrap();
        refuse_keyfold(&Info(info.to_owned()), &address).err().map(|error| error.to_string())
    }

    #[test]
    fn a_keyfold_names_the_server_behind_it() {
        assert_eq!(refused(""), None);
        let named = refused("# Keyfold\r\nkeyfold_version:0.1.0\r\nkeyfold_server:unix:///run/redis.sock\r\n").unwrap();
        assert!(named.starts_with("what answers at redis://127.0.0.1:6380 is a keyfold (version 0.1.0)"), "{named}");
        assert!(named.ends_with("name the server behind it: unix:///run/redis.sock"), "{named}");
        // An earlier one doesn't say.
        assert!(refused("keyfold_version:0.0.9\r\n").unwrap().ends_with("as its --upstream does"));
    }
}
