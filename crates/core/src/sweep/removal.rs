//! Removing a field of a bucket that nobody asked to remove: it has expired, or memory is short.

use crate::exchange::{CompareAndSet, Env, abandon};
use crate::frame::{Body, Frame};
use crate::layout::{Layout, NamespaceIndex, spill_name};
use crate::notify::{Event, Notices};

/// A field of a bucket, as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) namespace: NamespaceIndex,
    pub(crate) bucket: &'a [u8],
    pub(crate) field: &'a [u8],
    pub(crate) stored: &'a [u8],
}

impl Field<'_> {
    /// Removes it, and the spilled value that it points to, if it still holds what was read, which is this frame; parts are looked
    /// at once it has gone. Where that is because it has expired, it has by the server's clock too.
    pub(crate) fn removal(
        &self,
        frame: &Frame<'_>,
        why: Event,
        notices: Option<Notices>,
        env: &Env<'_>,
    ) -> CompareAndSet {
        let Self { namespace, bucket, field, stored } = *self;
        let mut removal = CompareAndSet::default();
        removal.check(&[b"HGET", bucket, field], Some(stored));
        let ends_at_ms = env.layout.ends_at_ms(namespace, bucket, field, frame);
        if let (Event::Expired, Some(at)) = (why, ends_at_ms) {
            // Nothing is removed by a time that the server doesn't have at that moment.
            removal.check_time_past(at);
        }
        removal.write(&[b"HDEL", bucket, field]);
        if let Some(spilled) = self.spilled(frame, env) {
            removal.write(&[b"UNLINK", &spilled]);
        }
        if let Some(origin) = Layout::origin_of(bucket) {
            abandon(origin, frame, env);
        }
        if let Some(notices) = notices
            && let Some(key) = env.layout.key_of(namespace, bucket, field)
        {
            removal.publish(notices, &key, why);
        }
        removal
    }

    /// The name of the spilled value that it points to.
    pub(crate) fn spilled(&self, frame: &Frame<'_>, env: &Env<'_>) -> Option<Vec<u8>> {
        let Body::Spill { nonce, .. } = frame.body else { return None };
        let key = env.layout.key_of(self.namespace, self.bucket, self.field)?;
        Some(spill_name(Layout::origin_of(self.bucket)?, nonce, &key))
    }
}
