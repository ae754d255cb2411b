//! Users in the words of ACL LIST and ACL GETUSER.
//!
//! Commands are shown by their rules in order, as Redis does since 7.2; Redis 7.0 works other rules out of what they
//! come to.

use super::selector::Selector;
use super::user::{Payload, User};
use crate::resp::Answer;
use crate::server_info::ServerInfo;

impl User {
    /// The line of ACL LIST, and of the users' file.
    pub(crate) fn describe(&self, server: &ServerInfo) -> Vec<u8> {
        let mut words = vec![b"user".to_vec(), self.name().as_bytes().to_vec()];
        words.extend(self.flags(server).into_iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.passwords().map(|password| format!("#{password}").into_bytes()));
        words.push(self.root().describe());
        words.extend(self.more().iter().map(|selector| [b"(", selector.describe().as_slice(), b")"].concat()));
        words.join(&b' ')
    }

    /// The answer to ACL GETUSER.
    pub(crate) fn answer(&self, server: &ServerInfo, answer: &mut Answer<'_>) {
        let databases = usize::from(has_databases(server));
        answer.map(6 + databases);
        answer.bulk(b"flags");
        let flags = self.flags(server);
        answer.set(flags.len());
        flags.iter().for_each(|flag| answer.bulk(flag.as_bytes()));
        answer.bulk(b"passwords");
        answer.array(self.passwords().count());
        self.passwords().for_each(|password| answer.bulk(password.as_bytes()));
        answer_selector(self.root(), server, answer);
        answer.bulk(b"selectors");
        answer.array(self.more().len());
        for selector in self.more() {
            answer.map(3 + databases);
            answer_selector(selector, server, answer);
        }
    }

    fn flags(&self, server: &ServerInfo) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on() { "on" } else { "off" }];
        flags.extend(self.is_nopass().then_some("nopass"));
        flags.extend(match self.payload() {
            _ if server.is_valkey_since(0, 0) => None,
            Payload::Unchecked => Some("skip-sanitize-payload"),
            Payload::Checked => Some("sanitize-payload"),
            // Later ones say so of whoever was made.
            Payload::Unsaid => server.is_redis_since(7, 2).then_some("sanitize-payload"),
        });
        flags
    }
}

fn answer_selector(selector: &Selector, server: &ServerInfo, answer: &mut Answer<'_>) {
    answer.bulk(b"commands");
    answer.bulk(&selector.commands.describe());
    answer.bulk(b"keys");
    answer.bulk(&selector.describe_keys());
    answer.bulk(b"channels");
    answer.bulk(&selector.describe_channels());
    if has_databases(server) {
        answer.bulk(b"databases");
        answer.bulk(b"alldbs");
    }
}

/// Whether the server has rules of databases, which keyfold doesn't have.
fn has_databases(server: &ServerInfo) -> bool {
    server.is_valkey_since(9, 1)
}
