//! Large values that are encoded before the request that writes them begins, by another thread where the driver has one.
//!
//! Encoding a megabyte takes milliseconds, in which whoever drives the core does nothing else. So a driver may ask for a
//! request's large values first, have them encoded elsewhere, and begin the request with what came of that. Nothing has
//! been sent by then: a client that is gone meanwhile has written nothing, and another layout makes no harm, as what was
//! encoded by the one before is not used. The client's own later requests wait meanwhile; their answers could not go out
//! before this one's anyhow.
//!
//! Only values that stand in the request are encoded so. What is worked out from an old value (APPEND), and what a
//! transaction or a script writes, is encoded where it is written.

use std::sync::Arc;

use crate::codec::{Effort, Payload};
use crate::exchange::Env;
use crate::layout::{Layout, NamespaceIndex, Revision};

/// Values of more bytes are worth handing to another thread: they take longer to encode than that does, by ten times.
pub const AHEAD_BYTES: usize = 8 * 1024;

/// A key, and a value that a request gives it.
pub(crate) type WrittenValue<'a> = (&'a [u8], &'a [u8]);

/// Values that wait to be encoded. They may be sent to another thread.
#[derive(Debug)]
pub struct Ahead {
    layout: Arc<Layout>,
    values: Vec<Value>,
}

#[derive(Debug)]
struct Value {
    namespace: NamespaceIndex,
    key: Vec<u8>,
    value: Vec<u8>,
    effort: Effort<'static>,
}

/// What came of them.
#[derive(Debug)]
pub struct Encoded {
    revision: Revision,
    values: Vec<(Value, Option<Payload>)>,
}

impl Ahead {
    /// Those of these values that are large, and are written by a codec.
    pub(crate) fn of<'a>(
        written: impl Iterator<Item = WrittenValue<'a>>,
        env: &Env<'_>,
        layout: &Arc<Layout>,
    ) -> Option<Self> {
        let coded = |(key, value): WrittenValue<'_>| {
            let place = layout.locate(key).place().filter(|place| !place.kind.is_raw())?;
            layout.namespace(place.namespace).codecs.written()?;
            let effort = env.stats.encoding().effort(env.now_ms, value.len());
            Some(Value { namespace: place.namespace, key: key.to_vec(), value: value.to_vec(), effort })
        };
        let values: Vec<Value> = written.filter(|(_, value)| value.len() > AHEAD_BYTES).filter_map(coded).collect();
        (!values.is_empty()).then(|| Self { layout: Arc::clone(layout), values })
    }

    /// The bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|value| value.key.len() + value.value.len()).sum()
    }

    /// Encodes them.
    pub fn run(self) -> Encoded {
        let encode = |value: Value| {
            let namespace = self.layout.namespace(value.namespace);
            let payload = namespace.payload(value.effort, &value.key, &value.value);
            (value, payload)
        };
        Encoded { revision: self.layout.revision(), values: self.values.into_iter().map(encode).collect() }
    }
}

impl Encoded {
    /// What came of this value of this key; none where nobody has encoded it, or it was done by another layout.
    pub(crate) fn find(
        &self,
        layout: &Layout,
        namespace: NamespaceIndex,
        key: &[u8],
        value: &[u8],
    ) -> Option<&Payload> {
        let is_it = |known: &Value| known.namespace == namespace && known.key == key && known.value == value;
        let found = self.values.iter().find(|(known, _)| is_it(known)).filter(|_| self.revision == layout.revision());
        found.and_then(|(_, payload)| payload.as_ref())
    }
}
