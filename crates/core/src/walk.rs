//! The walks over a server's names, and over a bucket's fields: SCAN and HSCAN from the first cursor until it is around.
//!
//! Whoever drives it sends each request and feeds the reply; a walk may rest or end anywhere. What SCAN promises is all
//! that it promises: a name that is there all the time comes at least once, and some come twice. It keeps its cursor to
//! itself, so that a walk over several servers may stand behind it with a cursor for each.
//!
//! A client's own SCAN and KEYS (`exchange::listing`) don't go by it: there the cursor is the client's, COUNT changes
//! from step to step, and several SCANs of one cursor go in one MULTI.

use crate::layout::NamespaceIndex;
use crate::resp::{Elements, Reply, write_command};

/// Fields of a hashtable-encoded bucket in one step, about. A listpack-encoded one comes whole whatever this says.
const FIELDS_AT_ONCE: &[u8] = b"1000";

/// Where a walk is, and which names it asks for.
#[derive(Clone, Debug)]
pub struct KeyWalk {
    cursor: Vec<u8>,
    /// What stands behind the cursor: MATCH, COUNT and TYPE, each with its value.
    options: Vec<Vec<u8>>,
    is_over: bool,
}

/// What was no page of names or fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// The server's error, its code first.
    #[error("{}", String::from_utf8_lossy(.0))]
    Refused(Vec<u8>),
    /// Another reply than SCAN or HSCAN has.
    #[error("the server's reply is none to SCAN or HSCAN")]
    Strange,
}

impl KeyWalk {
    /// A walk from the start, in steps of `count` slots of the server's table.
    pub fn new(count: u64) -> Self {
        Self { cursor: b"0".to_vec(), options: Vec::new(), is_over: false }.with(b"COUNT", count.to_string().as_bytes())
    }

    /// Goes on in steps of `count` slots. A server answers nobody else while it takes one: 512 keys take some 700 µs.
    pub fn in_steps_of(&mut self, count: u64) {
        // The count is the first option.
        if let Some(value) = self.options.get_mut(1) {
            *value = count.to_string().into_bytes();
        }
    }

    /// Names that this glob matches, only.
    pub fn matching(self, pattern: &[u8]) -> Self {
        self.with(b"MATCH", pattern)
    }

    /// Keys of this type, only.
    pub fn of_type(self, kind: &[u8]) -> Self {
        self.with(b"TYPE", kind)
    }

    fn with(mut self, option: &[u8], value: &[u8]) -> Self {
        self.options.extend([option.to_vec(), value.to_vec()]);
        self
    }

    /// Whether all names were given.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Appends the next request; how many replies it has, none once the walk is over.
    pub fn send(&self, wire: &mut Vec<u8>) -> Option<usize> {
        if self.is_over {
            return None;
        }
        let command: [&[u8]; 2] = [b"SCAN", &self.cursor];
        write_command(wire, &[&command[..], &self.options.iter().map(Vec::as_slice).collect::<Vec<_>>()].concat());
        Some(1)
    }

    /// Takes the reply to the last request: the names of one page, perhaps none.
    ///
    /// # Errors
    /// The server's error, or what is no reply to SCAN; the walk stays where it was.
    pub fn take<'r>(&mut self, reply: Reply<'r>) -> Result<impl Iterator<Item = &'r [u8]> + use<'r>, WalkError> {
        let (cursor, names) = page_of(reply)?;
        self.is_over = cursor == b"0";
        self.cursor = cursor.to_vec();
        Ok(names.filter_map(Reply::bytes))
    }
}

/// A bucket, and where the walk over its fields is.
///
/// A bucket is small as long as keys are spread by its placement's rule; but whoever chooses keys may fill one with as
/// many as he likes. So no walk opens one by HGETALL: HSCAN gives a small one, which is listpack-encoded, whole in one
/// step, and a large one in steps that hold the server up for no longer.
#[derive(Clone, Debug)]
pub struct BucketWalk {
    namespace: NamespaceIndex,
    name: Vec<u8>,
    cursor: Vec<u8>,
    is_over: bool,
}

impl BucketWalk {
    /// A walk from the start.
    pub fn new(namespace: NamespaceIndex, name: &[u8]) -> Self {
        Self { namespace, name: name.to_vec(), cursor: b"0".to_vec(), is_over: false }
    }

    /// The namespace that the bucket is of.
    pub fn namespace(&self) -> NamespaceIndex {
        self.namespace
    }

    /// The bucket.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// HSCAN's cursor.
    pub fn cursor(&self) -> &[u8] {
        &self.cursor
    }

    /// Whether no step has been taken yet.
    pub fn is_at_start(&self) -> bool {
        !self.is_over && self.cursor == b"0"
    }

    /// Whether all fields were given.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Appends the next step; it has one reply.
    pub fn send(&self, wire: &mut Vec<u8>) {
        write_command(wire, &[b"HSCAN", &self.name, &self.cursor, b"COUNT", FIELDS_AT_ONCE]);
    }

    /// Takes the reply to the last step: fields with their stored values. A field of a large bucket may come twice.
    ///
    /// # Errors
    /// The server's error, or what is no reply to HSCAN; the walk stays where it was.
    pub fn take<'r>(
        &mut self,
        reply: Reply<'r>,
    ) -> Result<impl Iterator<Item = (&'r [u8], &'r [u8])> + use<'r>, WalkError> {
        let (cursor, mut fields) = page_of(reply)?;
        self.is_over = cursor == b"0";
        self.cursor = cursor.to_vec();
        Ok(std::iter::from_fn(move || match (fields.next(), fields.next()) {
            (Some(Reply::Bulk(field)), Some(Reply::Bulk(stored))) => Some((field, stored)),
            _ => None,
        }))
    }
}

fn page_of(reply: Reply<'_>) -> Result<(&[u8], Elements<'_>), WalkError> {
    if let Reply::Error(text) = reply {
        return Err(WalkError::Refused(text.to_vec()));
    }
    read_page(reply).ok_or(WalkError::Strange)
}

/// The next cursor, `0` at the end, and what came with it: a reply to SCAN, HSCAN and their kin.
pub(crate) fn read_page(reply: Reply<'_>) -> Option<(&[u8], Elements<'_>)> {
    let Reply::Array(mut parts) = reply else { return None };
    match (parts.next(), parts.next()) {
        (Some(Reply::Bulk(cursor)), Some(Reply::Array(found))) => Some((cursor, found)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(walk: &mut KeyWalk, reply: &[u8]) -> Result<Vec<Vec<u8>>, WalkError> {
        Ok(walk.take(Reply::parse(reply).unwrap())?.map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a_walk_goes_on_from_cursor_to_cursor_until_it_is_around() {
        let mut walk = KeyWalk::new(10).matching(b"~*");
        let mut wire = Vec::new();
        assert_eq!(walk.send(&mut wire), Some(1));
        let mut first = Vec::new();
        write_command(&mut first, &[b"SCAN", b"0", b"COUNT", b"10", b"MATCH", b"~*"]);
        assert_eq!(wire, first);
        assert_eq!(
            names(&mut walk, b"*2\r\n$2\r\n17\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
            Ok(vec![b"a".into(), b"b".into()])
        );
        wire.clear();
        walk.send(&mut wire);
        assert!(wire.starts_with(b"*6\r\n$4\r\nSCAN\r\n$2\r\n17\r\n"), "{}", wire.escape_ascii());
        assert_eq!(names(&mut walk, b"*2\r\n$1\r\n0\r\n*0\r\n"), Ok(Vec::new()));
        assert!(walk.is_over() && walk.send(&mut wire).is_none());
    }

    #[test]
    fn a_walk_may_go_on_in_other_steps() {
        let mut walk = KeyWalk::new(10).matching(b"~*");
        walk.in_steps_of(500);
        let (mut asked, mut wire) = (Vec::new(), Vec::new());
        walk.send(&mut wire);
        write_command(&mut asked, &[b"SCAN", b"0", b"COUNT", b"500", b"MATCH", b"~*"]);
        assert_eq!(wire, asked);
    }

    #[test]
    fn a_bucket_is_walked_until_it_is_around() {
        let mut walk = BucketWalk::new(NamespaceIndex(0), b"b");
        let mut wire = Vec::new();
        walk.send(&mut wire);
        assert!(wire.starts_with(b"*5\r\n$5\r\nHSCAN\r\n$1\r\nb\r\n$1\r\n0\r\n") && walk.is_at_start());
        let refused = walk.take(Reply::parse(b"-WRONGTYPE no\r\n").unwrap()).map(Iterator::count);
        assert_eq!((refused, walk.is_at_start()), (Err(WalkError::Refused(b"WRONGTYPE no".to_vec())), true));
        let step = b"*2\r\n$1\r\n7\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
        let fields: Vec<_> = walk.take(Reply::parse(step).unwrap()).unwrap().collect();
        assert_eq!((fields, walk.is_over(), walk.is_at_start()), (vec![(&b"f"[..], &b"v"[..])], false, false));
        assert_eq!(walk.take(Reply::parse(b"*2\r\n$1\r\n0\r\n*0\r\n").unwrap()).unwrap().count(), 0);
        assert!(walk.is_over() && !walk.is_at_start());
    }

    #[test]
    fn what_is_no_page_leaves_the_walk_where_it_was() {
        let mut walk = KeyWalk::new(10);
        assert_eq!(names(&mut walk, b"-NOPERM no\r\n"), Err(WalkError::Refused(b"NOPERM no".to_vec())));
        for reply in [&b"+QUEUED\r\n"[..], b"*1\r\n$1\r\n0\r\n", b"*2\r\n:0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n$-1\r\n"] {
            assert_eq!(names(&mut walk, reply), Err(WalkError::Strange), "{}", reply.escape_ascii());
        }
        assert_eq!(walk.send(&mut Vec::new()), Some(1));
    }
}
