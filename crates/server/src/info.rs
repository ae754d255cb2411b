//! What a server says of itself in INFO.

use std::str::FromStr;

use anyhow::Context;
use keyfold_core::server_info::info_field;

/// One section of INFO: a name and a value on each line.
pub struct Info(pub(crate) String);

impl Info {
    /// All of it, as it came.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What it says of this.
    pub fn field(&self, name: &str) -> Option<&str> {
        info_field(&self.0, name)
    }

    /// A number; 0 where the server doesn't tell.
    pub fn number(&self, name: &str) -> u64 {
        self.field(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// A number that every server tells.
    pub fn needed<N: FromStr>(&self, name: &str) -> anyhow::Result<N> {
        let number = self.field(name).and_then(|text| text.parse().ok());
        number.with_context(|| format!("the server says no {name} in INFO"))
    }

    /// Of `commandstats`: microseconds that the server has spent on a command, where it was ever sent.
    pub fn spent_us(&self, command: &str) -> Option<f64> {
        let fields = self.field(&format!("cmdstat_{command}"))?;
        fields.split(',').find_map(|field| field.strip_prefix("usec="))?.parse().ok()
    }
}
