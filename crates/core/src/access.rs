//! Who may use the proxy, and for what: users of its own, in the words of Redis's ACL.

use std::sync::Arc;

/// The users of a proxy.
#[derive(Debug, Default)]
pub struct Users {
    open: Option<Arc<User>>,
}

/// A user.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct User {
    name: String,
}

impl User {
    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Users {
    /// Whoever connects is the user `default` and may do everything.
    pub fn open() -> Self {
        Self { open: Some(Arc::new(User { name: "default".to_owned() })) }
    }

    /// Whom a client is before it authenticates; none where it must.
    pub fn initial(&self) -> Option<Arc<User>> {
        self.open.clone()
    }

    /// The user of this name with this password.
    pub fn authenticate(&self, _name: &[u8], _password: &[u8]) -> Option<Arc<User>> {
        self.open.clone()
    }
}
