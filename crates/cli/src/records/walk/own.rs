//! Keys of their own, plain or zipped: what came of asking for them.

use std::vec;

use anyhow::bail;
use keyfold_core::frame::Frame;
use keyfold_core::resp::Reply;
use keyfold_server::reply::FromReply;
use keyfold_server::time::Moment;

use super::{Home, RecordWalk};
use crate::records::finding::FindingKind;
use crate::records::inquiry::{Field, Inquiry, Own};
use crate::records::{Content, Other, Packed, content};

impl RecordWalk<'_> {
    pub(super) fn take_strings(&mut self, keys: Vec<Own>, mut replies: vec::IntoIter<Reply<'_>>) -> anyhow::Result<()> {
        let now_ms = self.moment(&mut replies);
        let Some(Reply::Array(values)) = replies.next() else { bail!("MGET's answer is no list") };
        let mut bytes = 0;
        for ((own, value), expiry) in keys.into_iter().zip(values).zip(replies) {
            match (value, expiry) {
                (Reply::Bulk(value), expiry) => {
                    bytes += value.len();
                    self.take_own(own, value, expires_at(expiry, now_ms))?;
                }
                // Gone meanwhile.
                (_, Reply::Integer(-2)) => {}
                _ => self.waiting.push_back(Inquiry::Kind(own)),
            }
        }
        self.weigh(bytes);
        Ok(())
    }

    pub(super) fn take_other(
        &mut self,
        own: Own,
        kind: String,
        mut replies: vec::IntoIter<Reply<'_>>,
    ) -> anyhow::Result<()> {
        let now_ms = self.moment(&mut replies);
        let mut next = || replies.next().unwrap_or(Reply::Nil);
        if next() != Reply::Simple(kind.as_bytes()) {
            self.waiting.push_back(Inquiry::Kind(own));
            return Ok(());
        }
        let expires_at_ms = expires_at(next(), now_ms);
        let Reply::Bulk(dump) = next() else { bail!("DUMP of \"{}\" gave nothing", own.key.escape_ascii()) };
        let (dump, elements) = (dump.to_vec(), next());
        self.weigh(dump.len());
        let packed = if self.manner.wants.packed { content::packed(&kind, elements) } else { None };
        let other = Other { digest: content::digest(&kind, elements), kind, dump };
        let content = match packed {
            Some(value) => Content::Packed(Packed { value, other }),
            None => Content::Other(other),
        };
        self.show(own.key, content, expires_at_ms, own.namespace.map_or(Home::Plain, Home::Zipped))
    }

    /// The time of a question's moment, where it was asked for.
    fn moment<'r>(&self, replies: &mut impl Iterator<Item = Reply<'r>>) -> i64 {
        if self.how.has_pexpiretime {
            return 0;
        }
        let time = replies.next().and_then(Moment::from_reply);
        time.map_or_else(|| self.time.now_ms(), |Moment(ms)| ms)
    }

    /// What a key of its own holds: in some namespaces a frame.
    fn take_own(&mut self, own: Own, stored: &[u8], expires_at_ms: Option<i64>) -> anyhow::Result<()> {
        let home = own.namespace.map_or(Home::Plain, Home::Zipped);
        let layout = self.manner.layout;
        let framed =
            layout.places(&own.key).find(|place| place.kind.is_framed() && place.physical.as_slice() == own.physical);
        let Some(place) = framed else {
            return self.show(own.key, Content::String(stored.to_vec()), expires_at_ms, home);
        };
        let field = Field { namespace: place.namespace, bucket: own.physical, field: Vec::new(), key: own.key };
        match Frame::decode(stored) {
            Ok(frame) => self.show_decoded(field, &Frame { expires_at_ms, ..frame }, None, home),
            Err(error) => self.find_in(field, FindingKind::DamagedValue, error.to_string()),
        }
    }
}

/// The time that PEXPIRETIME said, or that PTTL said at `now_ms`.
fn expires_at(reply: Reply<'_>, now_ms: i64) -> Option<i64> {
    match reply {
        Reply::Integer(at) if at >= 0 => Some(now_ms + at),
        _ => None,
    }
}
