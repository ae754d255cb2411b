//! What in a layout works, and is likely not what was meant.

use std::fmt;

use super::{Layout, Namespace, NamespaceIndex};

/// The servers' default for `hash-max-listpack-entries` (Redis 7.0 to 8.0, Valkey 8.0 to 9.1).
const DEFAULT_LISTPACK_ENTRIES: u64 = 512;
/// The servers' default for `hash-max-listpack-value`, in bytes.
const DEFAULT_LISTPACK_VALUE_BYTES: usize = 64;

/// Something in a layout that works, and is likely not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The namespace concerned.
    pub namespace: NamespaceIndex,
    /// Its template's text.
    pub keys: String,
    /// What about it.
    pub concern: Concern,
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// A full bucket has more entries than a listpack by default.
    SpanOverEntries {
        /// The span.
        span: u64,
    },
    /// A value may be longer than a listpack takes by default.
    ValueLimitOverListpack {
        /// The limit.
        bytes: usize,
    },
    /// A field may be longer than a listpack takes by default.
    FieldLimitOverListpack {
        /// The limit.
        bytes: usize,
    },
}

impl Layout {
    /// What is likely not meant, against the servers' default settings.
    pub fn warnings(&self) -> Vec<Warning> {
        let warn = |(index, namespace): (usize, &Namespace)| {
            let keys = namespace.keys.to_string();
            concerns(namespace).map(move |concern| Warning {
                namespace: NamespaceIndex(index),
                keys: keys.clone(),
                concern,
            })
        };
        self.namespaces.iter().enumerate().flat_map(warn).collect()
    }
}

fn concerns(namespace: &Namespace) -> impl Iterator<Item = Concern> + use<> {
    let folds = namespace.placement.has_buckets();
    let span = namespace.placement.span().filter(|span| *span > DEFAULT_LISTPACK_ENTRIES);
    let over = |bytes: usize| Some(bytes).filter(|bytes| folds && *bytes > DEFAULT_LISTPACK_VALUE_BYTES);
    let value = over(namespace.value_limit).map(|bytes| Concern::ValueLimitOverListpack { bytes });
    let field = over(namespace.field_limit).map(|bytes| Concern::FieldLimitOverListpack { bytes });
    span.map(|span| Concern::SpanOverEntries { span }).into_iter().chain(value).chain(field)
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.keys)?;
        match self.concern {
            Concern::SpanOverEntries { span } => write!(
                f,
                "`span = {span}`: a bucket of more than {DEFAULT_LISTPACK_ENTRIES} entries becomes a hashtable and saves \
                 nothing, unless the server's hash-max-listpack-entries is raised; 64 to 128 is best"
            ),
            Concern::ValueLimitOverListpack { bytes } => write!(
                f,
                "`value_limit = {bytes}`: one value over {DEFAULT_LISTPACK_VALUE_BYTES} bytes makes its bucket a \
                 hashtable, unless the server's hash-max-listpack-value is at least {bytes}"
            ),
            Concern::FieldLimitOverListpack { bytes } => write!(
                f,
                "`field_limit = {bytes}`: one field over {DEFAULT_LISTPACK_VALUE_BYTES} bytes makes its bucket a \
                 hashtable, unless the server's hash-max-listpack-value is at least {bytes}"
            ),
        }
    }
}
