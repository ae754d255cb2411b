//! Reads a template's text, and refuses what matching could not decide without going back.

use super::{Piece, Placeholder, Template, TemplateError, Type};

/// The longest template read; it bounds the automata built from templates.
pub(super) const MAX_BYTES: usize = 512;

pub(super) fn parse(source: &str) -> Result<Template, TemplateError> {
    if source.is_empty() {
        return Err(TemplateError::Empty);
    }
    if source.len() > MAX_BYTES {
        return Err(TemplateError::TooLong { bytes: source.len(), max: MAX_BYTES });
    }
    let mut template = Template { source: source.to_owned(), pieces: Vec::new(), placeholders: Vec::new() };
    let mut at = 0;
    while at < source.len() {
        at = read_piece(source, at, &mut template)?;
    }
    if template.placeholders.is_empty() {
        return Err(TemplateError::NoPlaceholder);
    }
    check_neighbours(&template)?;
    Ok(template)
}

/// Reads what begins at byte `at`, and says where the next piece begins.
fn read_piece(source: &str, at: usize, template: &mut Template) -> Result<usize, TemplateError> {
    let rest = &source[at..];
    if rest.starts_with("{{") || rest.starts_with("}}") {
        push_literal(template, &rest.as_bytes()[..1]);
        return Ok(at + 2);
    }
    if rest.starts_with('}') {
        return Err(TemplateError::Stray { at });
    }
    let Some(inner) = rest.strip_prefix('{') else {
        let len = rest.find(['{', '}']).unwrap_or(rest.len());
        push_literal(template, &rest.as_bytes()[..len]);
        return Ok(at + len);
    };
    let len = inner.find('}').ok_or(TemplateError::Unclosed { at })?;
    let placeholder = read_placeholder(&inner[..len], at)?;
    if template.position(&placeholder.name).is_some() {
        return Err(TemplateError::Duplicate { name: placeholder.name });
    }
    template.pieces.push(Piece::Placeholder(placeholder.kind));
    template.placeholders.push(placeholder);
    Ok(at + len + 2)
}

/// Neighbouring literals become one, so that text ends at the whole of what follows it.
fn push_literal(template: &mut Template, bytes: &[u8]) {
    if let Some(Piece::Literal(literal)) = template.pieces.last_mut() {
        literal.extend_from_slice(bytes);
    } else {
        template.pieces.push(Piece::Literal(bytes.to_vec()));
    }
}

fn read_placeholder(inner: &str, at: usize) -> Result<Placeholder, TemplateError> {
    let (name, kind) = inner.split_once(':').map_or((inner, None), |(name, kind)| (name, Some(kind)));
    if name.is_empty() {
        return Err(TemplateError::Unnamed { at });
    }
    let name = name.to_owned();
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        return Err(TemplateError::BadName { name });
    }
    let kind = match kind {
        None => Type::Text,
        Some("int") => Type::Int,
        Some("uuid") => Type::Uuid,
        Some("hex") => Type::Hex,
        Some(given) => match given.strip_prefix("int(").and_then(|rest| rest.strip_suffix(')')) {
            None => return Err(TemplateError::UnknownType { name, given: given.to_owned() }),
            Some(width) => match width.parse() {
                // One spelling each: `parse` would also take `+3` and `03`.
                Ok(width @ 1..=18) if !given.contains("(+") && !given.contains("(0") => Type::Padded(width),
                _ => return Err(TemplateError::BadWidth { name, given: given.to_owned() }),
            },
        },
    };
    Ok(Placeholder { name, kind })
}

/// Refuses a placeholder of no fixed length whose end could not be told from what follows it.
fn check_neighbours(template: &Template) -> Result<(), TemplateError> {
    let mut placeholders = template.placeholders.iter().peekable();
    for (i, piece) in template.pieces.iter().enumerate() {
        let Piece::Placeholder(kind) = *piece else { continue };
        let Some(placeholder) = placeholders.next() else { break };
        let name = placeholder.name.clone();
        match template.pieces.get(i + 1) {
            None => {}
            Some(Piece::Literal(literal)) => {
                if let Some(&byte) = literal.first().filter(|&&byte| run_takes(kind, byte)) {
                    return Err(TemplateError::SwallowsLiteral { name, kind, byte: byte.into() });
                }
            }
            Some(Piece::Placeholder(_)) => {
                let next = placeholders.peek().map(|next| next.name.clone()).unwrap_or_default();
                match kind {
                    Type::Text => return Err(TemplateError::Unbounded { name, next }),
                    // Every placeholder may begin with a digit.
                    Type::Int | Type::Hex => return Err(TemplateError::SwallowsPlaceholder { name, kind, next }),
                    Type::Padded(_) | Type::Uuid => {}
                }
            }
        }
    }
    Ok(())
}

fn run_takes(kind: Type, byte: u8) -> bool {
    match kind {
        Type::Int => byte.is_ascii_digit(),
        Type::Hex => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        Type::Padded(_) | Type::Uuid | Type::Text => false,
    }
}
