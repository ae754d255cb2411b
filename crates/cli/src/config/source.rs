//! Where keys are moved from, where that is hashes of an application's own.

use anyhow::{Context, bail};
use keyfold_core::layout::LayoutFile;
use keyfold_core::placement::handmade::{Handmade, HandmadeError, MeRedis, Packing};
use keyfold_core::template::Template;

use crate::flags::source::{Convention, SourceFlags};

/// The rule for each of the file's namespaces; none where keys are moved from where keyfold knows them.
pub(crate) fn resolve(flags: &SourceFlags, file: &LayoutFile) -> anyhow::Result<Option<Vec<Handmade>>> {
    let packing = flags.value.unwrap_or(Packing::Raw);
    match flags.from {
        None => Ok(None),
        Some(Convention::MeRedis) => {
            if flags.keys.is_some() || flags.field.is_some() {
                bail!("--keys and --field are for --from buckets; me-redis has its own names and fields");
            }
            let gem = MeRedis::new(&flags.crumbs, flags.entries.unwrap_or(MeRedis::DEFAULT_ENTRIES), packing)?;
            rules(file, |template| gem.rule(template)).map(Some)
        }
        Some(Convention::Buckets) => {
            if !flags.crumbs.is_empty() || flags.entries.is_some() {
                bail!("--crumbs and --entries are for --from me-redis; --keys says how these hashes are called");
            }
            let keys =
                flags.keys.as_deref().context("say how the hashes are called: --keys 'mediabucket:{id/1000}'")?;
            if file.namespaces.len() != 1 {
                bail!("the layout has several namespaces; say which one's keys lie in these hashes, with --namespace");
            }
            let field = flags.field.clone().unwrap_or_else(|| whole_of_divided(keys));
            rules(file, |template| Handmade::new(template, keys, &field, packing)).map(Some)
        }
    }
}

fn rules(
    file: &LayoutFile,
    rule: impl Fn(&Template) -> Result<Handmade, HandmadeError>,
) -> anyhow::Result<Vec<Handmade>> {
    let rules = file.namespaces.iter().map(|namespace| {
        if namespace.keys.are_several() {
            bail!("keys are moved out of hashes to one template's namespace, and `{}` are several", namespace.keys);
        }
        rule(namespace.keys.first()).with_context(|| {
            format!("the namespace `{}`; if its keys lie elsewhere, name the others with --namespace", namespace.keys)
        })
    });
    rules.collect()
}

/// The field `{id}` where the names divide `{id/1000}`.
fn whole_of_divided(keys: &str) -> String {
    let divided = keys.split('{').find_map(|piece| piece.split_once('}')?.0.split_once('/'));
    divided.map_or_else(String::new, |(name, _)| format!("{{{name}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_what_the_names_divide() {
        assert_eq!(whole_of_divided("mediabucket:{id/1000}"), "{id}");
        assert_eq!(whole_of_divided("{{a}}:{shop}:{item/500:base62}"), "{item}");
        assert_eq!(whole_of_divided("{shop}"), "");
    }
}
