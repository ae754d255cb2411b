//! What of a key decides about its slot in a cluster.

use super::{Piece, Template, Type};

impl Template {
    /// The placeholders that make up the hash tag of its keys, by their positions: none of them where the tag is the
    /// same in all keys. `None` where keys have no tag, so that all of a key decides, or where a text before it may hold
    /// a brace of its own.
    pub fn hash_tag_parts(&self) -> Option<Vec<usize>> {
        let mut at = 0;
        let mut tag: Option<Vec<usize>> = None;
        let mut is_empty = true;
        for piece in self.pieces() {
            match (piece, &mut tag) {
                (Piece::Placeholder(Type::Text), None) => return None,
                (Piece::Placeholder(_), None) => at += 1,
                (Piece::Placeholder(_), Some(parts)) => {
                    parts.push(at);
                    at += 1;
                    is_empty = false;
                }
                (Piece::Literal(literal), _) => {
                    for byte in literal {
                        match (byte, &tag) {
                            (b'{', None) => tag = Some(Vec::new()),
                            (b'}', Some(_)) => return tag.filter(|_| !is_empty),
                            (_, Some(_)) => is_empty = false,
                            (_, None) => {}
                        }
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_between_the_first_braces() {
        for (keys, parts) in [
            ("user:{id:int}", None),
            ("user:{{{id:int}}}:cart", Some(vec![0])),
            ("{{users}}:{id:int}", Some(vec![])),
            ("{a:int}:{{{b:uuid}:{c:int}}}:{d}", Some(vec![1, 2])),
            ("{{}}{{{a:int}}}", None),
            ("{name}:{{{id:int}}}", None),
            ("a:{{{id:int}", None),
            ("{{{a}{{:{b:int}}}", Some(vec![0, 1])),
        ] {
            assert_eq!(Template::parse(keys).unwrap().hash_tag_parts(), parts, "{keys}");
        }
    }
}
