//! The layout file of a plan, with a reason for everything.

use std::fmt::Write as _;
use std::slice;

use keyfold_core::layout::{DEFAULT_FIELD_LIMIT, DEFAULT_VALUE_LIMIT, Namespace, keys_line};
use keyfold_core::template::{Template, Templates};

use super::{Family, Part, Plan};
use crate::choose::{Alternative, Choice, CodecChoice, Setting, Verdict};

/// What the file says of where it came from, a line each, and what the server needs.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Lines at the top.
    pub lines: Vec<String>,
}

/// Comments are wrapped before this column.
const WIDTH: usize = 110;

/// The namespaces alone.
pub(super) fn namespaces(plan: &Plan) -> String {
    let mut text = String::new();
    for stored in plan.stored.iter().flat_map(keyfold_core::layout::Layout::namespaces) {
        stored_namespace(&mut text, stored);
    }
    for (family, part) in &plan.families {
        match part {
            Part::Namespace => namespace(&mut text, family),
            Part::Shared(templates) if is_first(family, templates) => namespace_of(&mut text, family, templates),
            Part::Shared(_) => {}
            Part::KeptPlain => plain_namespace(&mut text, &family.template),
            Part::Left | Part::GoesWith(_) | Part::Dropped(_) => {}
        }
    }
    plan.kept_others.iter().for_each(|(template, _)| plain_namespace(&mut text, template));
    text
}

/// The whole file.
pub(super) fn file(plan: &Plan, heading: &Heading) -> String {
    let mut text = String::new();
    heading.lines.iter().for_each(|line| comment(&mut text, line));
    settings(&mut text, plan);
    if let Some(stored) = &plan.stored
        && !stored.is_empty()
    {
        text.push('\n');
        comment(&mut text, "What the server's layout says already, as it is: its keys stay where they are.");
        stored.namespaces().iter().for_each(|namespace| stored_namespace(&mut text, namespace));
    }
    for (family, part) in plan.families.iter().filter(|(_, part)| *part == Part::Namespace) {
        text.push('\n');
        describe(&mut text, family, part);
        namespace(&mut text, family);
    }
    for (family, part) in &plan.families {
        let Part::Shared(templates) = part else { continue };
        if is_first(family, templates) {
            text.push('\n');
            describe_shared(&mut text, plan, part);
            namespace_of(&mut text, family, templates);
        }
    }
    let (notable, minor, minor_keys) = plan.notable();
    for (family, part) in notable.filter(|(_, part)| !part.is_placed()) {
        text.push('\n');
        describe(&mut text, family, part);
        if *part == Part::KeptPlain {
            plain_namespace(&mut text, &family.template);
        }
    }
    for (template, keys) in &plan.kept_others {
        text.push('\n');
        let keys = count(*keys, "key");
        comment(
            &mut text,
            &format!("{template}: {keys} that stay as they are. Without this a wider template above would have them."),
        );
        plain_namespace(&mut text, template);
    }
    if minor > 0 {
        let (keys, templates) = (count(minor_keys, "key"), count(minor, "other template"));
        text.push('\n');
        comment(&mut text, &format!("{keys} of {templates}, too few each for a namespace."));
    }
    text
}

/// One namespace that folds or zips a family.
pub(super) fn namespace(text: &mut String, family: &Family) {
    namespace_of(text, family, slice::from_ref(&family.template));
}

/// Whether the family's template is the first of these.
fn is_first(family: &Family, templates: &Templates) -> bool {
    templates.first() == &family.template
}

/// One namespace with these templates; `family` is one of those that share its buckets, or the only one.
fn namespace_of(text: &mut String, family: &Family, templates: &[Template]) {
    let rule = &family.choice.rule;
    begin(text, templates);
    let _ = writeln!(text, "{}", rule.placement.lines(&family.template));
    if let Some(codec) = &family.choice.codec {
        let _ = writeln!(text, "codec = {}", codec.rule);
    }
    if rule.placement.has_buckets() {
        limit(text, "value_limit", rule.value_limit, DEFAULT_VALUE_LIMIT);
        limit(text, "field_limit", rule.field_limit, DEFAULT_FIELD_LIMIT);
    }
}

fn limit(text: &mut String, name: &str, limit: u64, default: usize) {
    if limit != default as u64 {
        let _ = writeln!(text, "{name} = {limit}");
    }
}

fn plain_namespace(text: &mut String, template: &Template) {
    begin(text, slice::from_ref(template));
    let _ = writeln!(text, "placement = \"plain\"");
}

fn begin(text: &mut String, templates: &[Template]) {
    let _ = writeln!(text, "[[namespace]]\n{}", keys_line(templates));
}

fn stored_namespace(text: &mut String, namespace: &Namespace) {
    begin(text, &namespace.keys);
    let _ = writeln!(text, "{}", namespace.placement.lines(namespace.keys.first()));
    limit(text, "value_limit", namespace.value_limit as u64, DEFAULT_VALUE_LIMIT);
    limit(text, "field_limit", namespace.field_limit as u64, DEFAULT_FIELD_LIMIT);
    if !namespace.codec.is_none() {
        let _ = writeln!(text, "codec = {}", namespace.codec);
    }
}

/// The settings that the server needs for all of it.
fn settings(text: &mut String, plan: &Plan) {
    let folded = plan.families.iter().filter(|(_, part)| part.is_placed());
    let mut most: Vec<(&Family, &Setting)> = Vec::new();
    for (family, setting) in folded.flat_map(|(family, _)| family.choice.relies_on.iter().map(move |one| (family, one)))
    {
        match most.iter_mut().find(|(_, other)| other.name == setting.name) {
            Some(other) if other.1.needs < setting.needs => *other = (family, setting),
            Some(_) => {}
            None => most.push((family, setting)),
        }
    }
    let by_slot = plan.families.iter().any(|(family, _)| family.choice.rule.placement.is_by_slot());
    let place = if by_slot { "on every node, replicas included" } else { "on the server" };
    for (family, setting) in most {
        let Setting { name, needs, has, .. } = setting;
        if setting.is_met() {
            comment(text, &format!("It relies on the server's {name}: {needs} at the least, and it is {has}."));
        } else {
            comment(
                text,
                &format!(
                    "Before it is used, {place}: CONFIG SET {name} {needs} (it is {has}; `{}` needs the most), \
                     and the same in its configuration file, or it is gone after a restart.",
                    family.template
                ),
            );
        }
    }
}

/// What the families are that share buckets, and why they do.
fn describe_shared(text: &mut String, plan: &Plan, shared: &Part) {
    let families = || plan.families.iter().filter(|(_, part)| part == shared).map(|(family, _)| family);
    for family in families() {
        describe_keys(text, family);
        describe_bytes(text, family);
    }
    let Some(first) = families().next() else { return };
    describe_choice(text, &first.choice, families().map(|family| family.keys).sum());
    for family in families() {
        comment(text, &format!("{}:", family.template));
        alternatives(text, &family.choice, family.keys);
    }
}

/// What a family is.
fn describe_keys(text: &mut String, Family { template, keys, choice }: &Family) {
    comment(text, &format!("{template}: {}, {} now.", count(*keys, "key"), each(choice.bytes_now, *keys)));
}

/// What a family that is placed takes then.
fn describe_bytes(text: &mut String, Family { keys, choice, .. }: &Family) {
    let reads = format!("{:.2} µs a read instead of {:.2}", choice.read_us_after, choice.read_us_now);
    let after = each(choice.bytes_after, *keys);
    comment(text, &format!("{after} afterwards, {} less; {reads}.", percent(choice)));
}

/// What a family is, and why this becomes of it.
fn describe(text: &mut String, family: &Family, part: &Part) {
    let choice = &family.choice;
    describe_keys(text, family);
    match (part, &choice.verdict) {
        (Part::Dropped(why), _) => {
            comment(text, &format!("Not folded, though it would save {}: {why}.", percent(choice)));
        }
        (Part::GoesWith(wider), _) => comment(text, &format!("Too few for a namespace: they go with `{wider}`.")),
        (_, Verdict::Leave(why)) => comment(text, &format!("Left as it is: {why}.")),
        (_, Verdict::Fold | Verdict::Zip) => describe_bytes(text, family),
    }
    describe_choice(text, choice, family.keys);
    alternatives(text, choice, family.keys);
}

/// The codec, how full buckets are, and what else there is to know of a choice for so many keys.
fn describe_choice(text: &mut String, choice: &Choice, keys: u64) {
    if let Some(codec) = &choice.codec {
        describe_codec(text, codec, keys);
    }
    if let Some(fill) = &choice.fill {
        let (low, high) = (fill.quantile(0.01), fill.quantile(0.99));
        comment(text, &format!("{:.0} entries to a bucket; in 98 % of buckets {low} to {high}.", fill.mean()));
    }
    choice.notes.iter().chain(&choice.other_ways).for_each(|note| comment(text, &format!("{note}.")));
    choice.relies_on.iter().filter_map(|setting| without(setting, keys)).for_each(|line| comment(text, &line));
}

/// What the codec does by itself, and what it would be without.
fn describe_codec(text: &mut String, codec: &CodecChoice, keys: u64) {
    let judged = count(codec.judged_by as u64, "value");
    let without = each(codec.bytes_without, keys);
    let dictionary = match codec.packed_bytes {
        0 => String::new(),
        packed => format!(
            " Its dictionary has {}, {packed} of them in the server; `keyfold train` makes it.",
            count(codec.dictionary_bytes, "byte")
        ),
    };
    comment(
        text,
        &format!(
            "{} on the machine that planned, measured by {judged} that it was not trained by.{dictionary} Without it: \
             {without}.",
            codec.describe()
        ),
    );
}

/// What happens where a setting is not as it should be.
fn without(setting: &Setting, keys: u64) -> Option<String> {
    let bytes = each(setting.bytes_without?, keys);
    let Setting { name, needs, has, .. } = setting;
    Some(format!("With {name} at {has} instead of {needs} it would be {bytes}: such buckets become hashtables."))
}

fn alternatives(text: &mut String, choice: &Choice, keys: u64) {
    if choice.alternatives.is_empty() {
        return;
    }
    comment(text, "Weighed and not taken:");
    let width = choice.alternatives.iter().map(|other| other.what.len()).max().unwrap_or(0).max(30);
    for Alternative { what, bytes, read_us, why_not } in &choice.alternatives {
        if *bytes == 0 {
            let _ = writeln!(text, "#   {what:<width$} {why_not}");
        } else {
            let bytes = *bytes as f64 / keys.max(1) as f64;
            let _ = writeln!(text, "#   {what:<width$} {bytes:>7.1} bytes, {read_us:>5.2} µs: {why_not}");
        }
    }
}

fn percent(choice: &Choice) -> String {
    format!("{:.0} %", choice.saving() * 100.0)
}

/// `17.2 bytes a key`.
fn each(bytes: u64, keys: u64) -> String {
    format!("{:.1} bytes a key", bytes as f64 / keys.max(1) as f64)
}

/// `58,220 keys`.
fn count(number: u64, noun: &str) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    format!("{shown} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A comment of one or more lines. What is not printable, keys' literals among it, is escaped.
fn comment(text: &mut String, line: &str) {
    let mut width = 0;
    text.push('#');
    for word in line.split(' ') {
        let word: String =
            word.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
        let len = word.chars().count();
        if width > 0 && width + len > WIDTH {
            text.push_str("\n#");
            width = 0;
        }
        text.push(' ');
        text.push_str(&word);
        width += len + 1;
    }
    text.push('\n');
}
