//! A codec of one's own: booleans as one byte each.
//!
//! The layout names it, the program that serves knows it. `cargo run -p keyfold-core --example own_codec`

use std::collections::BTreeMap;
use std::sync::Arc;

use keyfold_core::codec::{Codec, CodecError, CodecKind, Kinds, Options, Owner, Stored};
use keyfold_core::layout::LayoutFile;
use keyfold_core::placement::Secrets;

#[derive(Debug)]
struct Flags;

impl CodecKind for Flags {
    fn name(&self) -> &'static str {
        "flags"
    }

    fn open(&self, _options: &Options, _dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        Ok(Arc::new(Self))
    }
}

impl Codec for Flags {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        let words: Option<Vec<u8>> = value
            .split(|byte| *byte == b' ')
            .map(|word| match word {
                b"false" => Some(0),
                b"true" => Some(1),
                _ => None,
            })
            .collect();
        out.extend(words.iter().flatten());
        words.is_some()
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        for (at, flag) in payload.iter().enumerate() {
            let word = match flag {
                0 => "false",
                1 => "true",
                other => return Err(CodecError::payload(format!("byte {at} is {other}, which is no flag"))),
            };
            out.extend_from_slice(if at > 0 { b" " } else { b"" });
            out.extend_from_slice(word.as_bytes());
        }
        Ok(())
    }

    fn max_len(&self) -> usize {
        4096
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kinds = Kinds::default().with(Arc::new(Flags));
    let file = "[[namespace]]\nkeys = \"seen:{user:int}\"\nbucket = { span = 64 }\ncodec = \"flags\"\n";
    let mut layout = LayoutFile::parse_with(file, &kinds, &Secrets::default())?.into_layout();
    layout.open(&kinds, &BTreeMap::new());

    let namespace = &layout.namespaces()[0];
    let value = b"true false true true";
    let Stored::InPlace(stored) = namespace.encode(b"seen:17", value, None) else {
        return Err("it was spilled".into());
    };
    let frame = keyfold_core::frame::Frame::decode(&stored)?;
    let back = namespace.decode(b"seen:17", &frame, None)?;
    println!("{} bytes of value are {} bytes in the server", value.len(), stored.len());
    assert_eq!(back.as_deref(), Some(&value[..]));
    Ok(())
}
