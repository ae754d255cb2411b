//! Who uses a server and how, as `keyfold analyze` and `keyfold plan` show it.

use keyfold_survey::uses::{Use, Uses};
use serde_json::{Value, json};

/// A section of lines; none where there is nothing to say.
pub(crate) fn text(uses: &Uses) -> Option<String> {
    if uses.are_nothing() {
        return None;
    }
    let mut text = "What uses this server\n".to_owned();
    for Use { subject, what, advice } in &uses.found {
        text.push_str(&format!("  {:<8}  {what}\n  to do:    {advice}\n", subject.name()));
    }
    if !uses.unseen.is_empty() {
        text.push_str(&format!("  unseen    the server doesn't tell {}\n", uses.unseen.join(", ")));
    }
    Some(text)
}

/// The same for programs.
pub(crate) fn json(uses: &Uses) -> Value {
    let found = uses.found.iter();
    let found = found.map(|one| json!({ "subject": one.subject.name(), "what": one.what, "advice": one.advice }));
    json!({ "found": found.collect::<Vec<_>>(), "unseen": uses.unseen })
}
