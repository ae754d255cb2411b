//! Which server it is, by its own words.

use std::fmt;

use anyhow::{Context, bail};
use keyfold_core::exchange::ServerInfo;

use crate::info::Info;

/// The oldest server that keyfold works with: GETEX, SET … KEEPTTL GET, and ACL as it uses them.
const MINIMUM: (u32, u32) = (6, 2);

/// A server's name and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `Redis` or `Valkey`.
    pub flavor: &'static str,
    /// As it says it: `7.0.15`.
    pub number: String,
    /// The version of Redis that it is compatible with.
    redis: (u32, u32),
    /// `standalone`, `cluster` or `sentinel`.
    mode: String,
}

impl Version {
    /// Reads what INFO says.
    pub fn parse(info: &Info) -> anyhow::Result<Self> {
        let redis = info.field("redis_version").context("the server says no redis_version in INFO")?;
        let mut numbers = redis.split('.').map(|part| part.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let (flavor, number) = info.field("valkey_version").map_or(("Redis", redis), |valkey| ("Valkey", valkey));
        let mode = info.field("redis_mode").or_else(|| info.field("server_mode")).unwrap_or("standalone");
        Ok(Self { flavor, number: number.to_owned(), redis: version, mode: mode.to_owned() })
    }

    /// The same, as the core knows servers.
    pub fn info(&self) -> ServerInfo {
        ServerInfo { name: self.flavor.to_ascii_lowercase(), version: self.number.clone() }
    }

    /// Whether it knows PEXPIRETIME, which says when a key expires to the millisecond.
    pub fn has_pexpiretime(&self) -> bool {
        self.redis >= (7, 0)
    }

    /// Whether fields of hashes can have a TTL of their own.
    pub fn has_field_ttl(&self) -> bool {
        match self.flavor {
            "Valkey" => {
                self.number.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= 9)
            }
            _ => self.redis >= (7, 4),
        }
    }

    /// Whether it is a node of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.mode == "cluster"
    }

    /// Refuses a server that keyfold can't work with; with `cluster`, a cluster's node is well.
    pub fn check(&self, cluster: bool) -> anyhow::Result<()> {
        let (major, minor) = MINIMUM;
        if self.redis < MINIMUM {
            bail!("the server is {self}; keyfold needs Redis {major}.{minor} or newer, or any Valkey");
        }
        if self.mode != "standalone" && !(cluster && self.is_cluster()) {
            bail!("the server runs in {} mode; this part of keyfold works with one standalone server", self.mode);
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flavor, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(info: &str) -> Version {
        Version::parse(&Info(info.to_owned())).unwrap()
    }

    #[test]
    fn both_flavors() {
        assert_eq!(
            version("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n").to_string(),
            "Redis 7.0.15"
        );
        let valkey =
            version("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:standalone");
        assert_eq!(valkey.to_string(), "Valkey 9.1.2");
        assert!(valkey.check(false).is_ok());
    }

    #[test]
    fn too_old_or_in_another_mode() {
        let old = version("redis_version:6.0.16\r\nredis_mode:standalone").check(false).unwrap_err().to_string();
        assert!(old.contains("Redis 6.0.16") && old.contains("6.2 or newer"), "{old}");
        assert!(version("redis_version:6.2.0\r\nredis_mode:standalone").check(true).is_ok());
        let node = version("redis_version:7.0.0\r\nredis_mode:cluster");
        assert!(node.check(false).is_err() && node.check(true).is_ok());
        assert!(version("redis_version:7.0.0\r\nredis_mode:sentinel").check(true).is_err());
    }
}
