//! Sets and hashes in parts, without reading all of them: what points to them says how many members they have, and some of
//! these are drawn.

use keyfold_core::collection::parts::Header;
use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::exchange::{PARTS_SCRIPT, draw_from_parts_command};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::resp::Reply;
use keyfold_server::Commands;

/// Members that are drawn of each.
const DRAWN: u64 = 200;

/// A set or hash in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InParts {
    pub(crate) kind: CollectionKind,
    pub(crate) members: u64,
    pub(crate) expires: bool,
}

impl InParts {
    /// What a field that points to parts says of them; none of any other.
    pub(crate) fn of(stored: &[u8]) -> Option<Self> {
        let Frame { body: Body::Parts { header, .. }, expires_at_ms } = Frame::decode(stored).ok()? else {
            return None;
        };
        let header = Header::decode(header)?;
        Some(Self { kind: header.form.kind(), members: header.len(), expires: expires_at_ms.is_some() })
    }

    /// Appends what the draws go by, once before all; it has one reply.
    pub(crate) fn prepare(commands: &mut Commands) {
        commands.push(&[b"SCRIPT", b"LOAD", PARTS_SCRIPT.as_bytes()]);
    }

    /// Appends the draw from the parts that this field points to; it has one reply.
    pub(crate) fn draw(self, bucket: &[u8], field: &[u8], commands: &mut Commands) {
        let draw = draw_from_parts_command(bucket, field, self.kind, DRAWN).unwrap_or_default();
        commands.push(&draw.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// The members that were drawn; none where it has become small or gone meanwhile.
    pub(crate) fn drawn(self, reply: Reply<'_>) -> Option<Collection> {
        let Reply::Array(texts) = reply else { return None };
        let texts: Vec<Vec<u8>> = texts.filter_map(Reply::bytes).map(<[u8]>::to_vec).collect();
        (!texts.is_empty()).then(|| Collection::of_texts(self.kind, texts))
    }
}
