//! Reads a template's text, and refuses what matching could not decide without going back.

use super::{Piece, Placeholder, Template, TemplateError, Type};

/// The longest template read; it bounds the automata built from templates.
pub(super) const MAX_BYTES: usize = 512;

/// A template, or the byte at which it is wrong, and how.
pub(super) fn parse(source: &str) -> Result<Template, (usize, TemplateError)> {
    if source.is_empty() {
        return Err((0, TemplateError::Empty));
    }
    if source.len() > MAX_BYTES {
        return Err((0, TemplateError::TooLong { bytes: source.len(), max: MAX_BYTES }));
    }
    let mut template = Template { source: source.to_owned(), pieces: Vec::new(), placeholders: Vec::new() };
    let (mut at, mut placeholders_at) = (0, Vec::new());
    while at < source.len() {
        let next = read_piece(source, at, &mut template).map_err(|error| (at, error))?;
        if template.placeholders.len() > placeholders_at.len() {
            placeholders_at.push(at);
        }
        at = next;
    }
    if template.placeholders.is_empty() {
        return Err((0, TemplateError::NoPlaceholder));
    }
    check_neighbours(&template).map_err(|(placeholder, error)| (placeholders_at[placeholder], error))?;
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

/// Refuses a placeholder of no fixed length whose end could not be told from what follows it; says which one it is.
fn check_neighbours(template: &Template) -> Result<(), (usize, TemplateError)> {
    let mut placeholders = template.placeholders.iter().enumerate().peekable();
    for (i, piece) in template.pieces.iter().enumerate() {
        let Piece::Placeholder(kind) = *piece else { continue };
        let Some((number, placeholder)) = placeholders.next() else { break };
        let name = placeholder.name.clone();
        match template.pieces.get(i + 1) {
            None => {}
            Some(Piece::Literal(literal)) => {
                if let Some(&byte) = literal.first().filter(|&&byte| run_takes(kind, byte)) {
                    return Err((number, TemplateError::SwallowsLiteral { name, kind, byte: byte.into() }));
                }
            }
            Some(Piece::Placeholder(_)) => {
                let next = placeholders.peek().map(|(_, next)| next.name.clone()).unwrap_or_default();
                match kind {
                    Type::Text => return Err((number, TemplateError::Unbounded { name, next })),
                    // Every placeholder may begin with a digit.
                    Type::Int | Type::Hex => {
                        return Err((number, TemplateError::SwallowsPlaceholder { name, kind, next }));
                    }
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
