//! TOML read with all that is wrong in it: what can't be read is noted and taken out, and the rest is read again.
//!
//! Each mistake is told once: what is missing or empty only because it was taken out is no mistake of its own.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::error::LayoutError;
use super::reader::refusal;

/// So many mistakes are told. Each takes reading the whole again, and a file with more is no layout.
const MOST: usize = 100;

/// What could be read of a text.
pub(super) struct Salvage<T> {
    /// None where it isn't TOML, or there is no reading it.
    pub(super) read: Option<T>,
    /// What is wrong, in no order.
    pub(super) errors: Vec<LayoutError>,
    /// What was taken out.
    pub(super) taken: Vec<Taken>,
}

/// A value that was taken out, or one of a list.
pub(super) struct Taken {
    /// Where it stands, with its name if that is what is wrong.
    pub(super) at: Range<usize>,
    /// Where the head of the table around it begins, and its name there.
    named: Option<(usize, String)>,
}

impl<T> Salvage<T> {
    pub(super) fn of<'t>(text: &'t str) -> Self
    where
        T: Deserialize<'t>,
    {
        let (mut table, errors) = DeTable::parse_recoverable(text);
        let mut errors: Vec<_> = errors.iter().map(|error| refusal(text, error)).collect();
        // The first of a line is what is wrong there; the others are what its reader makes of the rest.
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup_by_key(|error| error.line);
        let is_toml = errors.is_empty();
        let mut salvage = Self { read: None, errors, taken: Vec::new() };
        while is_toml && salvage.errors.len() < MOST {
            let error = match T::deserialize(Deserializer::from(table.clone())) {
                Ok(read) => return Self { read: Some(read), ..salvage },
                Err(error) => error,
            };
            let at = error.span().unwrap_or_default();
            if !salvage.follows(&at, error.message()) {
                salvage.errors.push(refusal(text, &error));
            }
            match take_out_of_table(&mut table, &at) {
                Some(taken) => salvage.taken.push(taken),
                None => break,
            }
        }
        salvage
    }

    /// Whether a mistake at `at` is there only because something was taken out: a list that is empty now, or a field
    /// that is missing now.
    fn follows(&self, at: &Range<usize>, message: &str) -> bool {
        self.taken.iter().any(|Taken { at: taken, named }| {
            let is_within = at.start <= taken.start && taken.end <= at.end;
            let is_it =
                |(table, name): &(usize, String)| *table == at.start && message == format!("missing field `{name}`");
            is_within || named.as_ref().is_some_and(is_it)
        })
    }
}

/// Takes out the innermost of what stands at `at`.
fn take_out(value: &mut Spanned<DeValue<'_>>, at: &Range<usize>) -> Option<Taken> {
    let head = value.span();
    match value.get_mut() {
        DeValue::Table(inner) => {
            let mut table = Spanned::new(head.clone(), std::mem::take(inner));
            let taken = take_out_of_table(&mut table, at);
            *inner = table.into_inner();
            taken
        }
        DeValue::Array(array) => {
            let within = array.iter_mut().find_map(|element| take_out(element, at));
            within.or_else(|| take_out_of_array(array, at))
        }
        _ => None,
    }
}

fn take_out_of_table(table: &mut Spanned<DeTable<'_>>, at: &Range<usize>) -> Option<Taken> {
    let head = table.span().start;
    let table = table.get_mut();
    if let Some(taken) = table.iter_mut().find_map(|(_, value)| take_out(value, at)) {
        return Some(taken);
    }
    let (name, _) = table.iter().find(|(name, value)| name.span() == *at || value.span() == *at)?;
    let name = name.clone();
    table.remove(&name);
    Some(Taken { at: at.clone(), named: Some((head, name.into_inner().into_owned())) })
}

fn take_out_of_array(array: &mut DeArray<'_>, at: &Range<usize>) -> Option<Taken> {
    let found = array.iter().position(|element| element.span() == *at)?;
    let all = std::mem::replace(array, DeArray::new()).into_iter().enumerate();
    *array = all.filter(|(index, _)| *index != found).map(|(_, element)| element).collect();
    Some(Taken { at: at.clone(), named: None })
}

#[cfg(test)]
mod tests {
    use crate::codec::Kinds;
    use crate::layout::LayoutFile;
    use crate::placement::Secrets;

    /// Where each mistake stands, and how what is said of it begins.
    fn mistakes(text: &str) -> Vec<String> {
        let errors = LayoutFile::check_with(text, &Kinds::default(), &Secrets::default()).unwrap_err();
        let told = |said: String| said.split([',', ';']).next().unwrap_or_default().to_owned();
        errors
            .iter()
            .map(|error| format!("{}:{} {}", error.line, error.column, told(error.problem.to_string())))
            .collect()
    }

    #[test]
    fn unknown_fields_and_wrong_types_are_told_with_all_else() {
        let text = "\
[[namespace]]
keys = \"session:{id:uuid}\"
buckets = { span = 8 }
codex = \"zstd\"
value_limit = \"x\"

[[namespace]]
keys = \"u:{id:nosuch}\"
bucket = { sapn = 8, count = \"many\" }
field_limit = 0

[extra]
x = 1
";
        assert_eq!(
            mistakes(text),
            [
                "3:1 unknown field `buckets`",
                "4:1 unknown field `codex`",
                "5:15 invalid type: string \"x\"",
                "8:11 `keys`: `{id:nosuch}`: unknown type \"nosuch\"",
                "9:12 unknown field `sapn`",
                "9:30 invalid type: string \"many\"",
                "10:15 `field_limit = 0`: a limit is 1 to 536870912 bytes",
                "12:2 unknown field `extra`",
            ]
        );
    }

    #[test]
    fn what_follows_from_a_mistake_is_no_mistake() {
        // Neither are the keys missing, nor the bucket's rule, nor is a namespace plain whose bucket is misspelt.
        assert_eq!(
            mistakes("[[namespace]]\nkeys = 3\nbuckets = 4"),
            ["2:8 invalid type: integer `3`", "3:1 unknown field `buckets`"]
        );
        assert_eq!(mistakes("[[namespace]]\nkeys = [3]"), ["2:9 invalid type: integer `3`"]);
        assert_eq!(mistakes("[[namespace]]\nkeys = 'a:{x:int}'\nbucket = { spam = 8 }"), ["3:12 unknown field `spam`"]);
        let several = "[[namespace]]\nkeys = ['a:{x:int}', 'b:{x:int}']\nbuket = { count = 8 }";
        assert_eq!(mistakes(several), ["3:1 unknown field `buket`"]);
        // What is missing all the same is told, and what stands in other namespaces.
        assert_eq!(
            mistakes("[[namespace]]\nbucket = {}\nfoo = 1\n[[namespace]]\nkeys = 'a:{x:int}'\nbucket = {}"),
            ["1:1 missing field `keys`", "3:1 unknown field `foo`", "6:10 `bucket` takes one rule: { span = 128 }"]
        );
    }

    #[test]
    fn a_head_in_other_brackets_is_told_with_how_it_is_written() {
        for text in ["[namespace]\nkeys = 'a:{x:int}'", "[namespace.a]\nkeys = 'a:{x:int}'"] {
            let errors = LayoutFile::check_with(text, &Kinds::default(), &Secrets::default()).unwrap_err();
            assert_eq!(errors.len(), 1);
            let problem = errors[0].problem.to_string();
            assert!(
                problem
                    .ends_with("expected [[namespace]], in double brackets and without a name, above each namespace")
            );
        }
    }

    #[test]
    fn all_that_is_no_toml_is_told_and_nothing_else() {
        let text = "[[namespace]]\nkeys = \"a:{id:int}\nbucket = { count = }\nvalue_limit == 3\nfoo = 1";
        let lines: Vec<_> = mistakes(text).iter().map(|told| told.split(':').next().unwrap().to_owned()).collect();
        assert_eq!(lines, ["2", "3", "4"], "{:?}", mistakes(text));
    }

    #[test]
    fn what_only_the_server_has_is_not_offered() {
        let said = |text: &str| LayoutFile::parse(text).unwrap_err().problem.to_string();
        let fields = "`keys`, `type`, `bucket`, `placement`, `keyed`, `text_table`, `cluster`, `value_limit`, `field_limit`, `codec`, `evict`, `weight`";
        let text = "[[namespace]]\nkeys = 'a:{x:int}'\nslots = 1";
        assert_eq!(said(text), format!("unknown field `slots`, expected one of {fields}"));
        assert_eq!(said("slot = 1"), "unknown field `slot`, expected one of `cluster`, `cache`, `namespace`");
    }

    #[test]
    fn a_file_of_nothing_but_mistakes_comes_to_an_end() {
        let text: String = (0..1000).map(|n| format!("f{n} = {n}\n")).collect();
        assert_eq!(mistakes(&text).len(), super::MOST);
    }
}
