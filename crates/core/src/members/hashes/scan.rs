//! HSCAN: the whole hash in one answer, as servers give of one that is small, unless it lies in parts. Redis 7.0 t_hash.c and db.c.

use crate::collection::Field;
use crate::dialect::Since;
use crate::members::cursor::{ScanOptions, is_cursor};
use crate::resp::Answer;
use crate::resp::word::is_word;
use crate::string::{Call, Flow, Halt, SYNTAX_ERROR, Space};

/// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]: the cursor 0, and the fields that match with their values.
///
/// The options are looked at only where there is a hash.
pub(super) fn hscan(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    if !is_cursor(call.args[2], call.dialect) {
        return Err("ERR invalid cursor".into());
    }
    let hash = space.hash(call.args[1])?;
    let options = if hash.is_some() { scan_options(call)? } else { ScanOptions::default() };
    let fields = hash.into_iter().flat_map(|hash| hash.iter());
    let found: Vec<(&[u8], &Field)> = fields.filter(|(name, _)| options.let_through(name)).collect();
    answer.array(2);
    answer.bulk(b"0");
    answer.array(if options.without_values { found.len() } else { found.len() * 2 });
    for (name, field) in found {
        answer.bulk(name);
        if !options.without_values {
            answer.bulk(&field.value);
        }
    }
    Ok(())
}

/// The options behind the cursor.
pub(in crate::members) fn scan_options<'a>(call: &Call<'a>) -> Result<ScanOptions<'a>, Halt> {
    let mut options = ScanOptions::default();
    let mut at = 3;
    while let Some(word) = call.args.get(at) {
        let has_next = at + 1 < call.args.len();
        if is_word(word, "COUNT") && has_next {
            options.count = call.integer(at + 1)?;
            if options.count < 1 {
                return Err(SYNTAX_ERROR.into());
            }
            at += 2;
        } else if is_word(word, "MATCH") && has_next {
            options.match_by(call.args[at + 1]);
            at += 2;
        } else if is_word(word, "NOVALUES") && call.dialect.knows(Since::HSCAN_NOVALUES) {
            options.without_values = true;
            at += 1;
        } else {
            return Err(SYNTAX_ERROR.into());
        }
    }
    Ok(options)
}
