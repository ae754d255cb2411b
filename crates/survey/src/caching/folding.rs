//! The layout that would fold the keys of a trace: planned like that of a server that holds them all.

use keyfold_core::layout::Layout;
use keyfold_core::memory::ValueShape;

use super::requests::Requests;
use crate::choose::{Aims, choose_among};
use crate::observation::{Content, Encoding, Kind, Observation};
use crate::plan::{Family, Plan};
use crate::survey::Survey;

/// The layout, and the templates of what it folds. What is not worth folding stays plain.
///
/// # Errors
/// The planned layout is refused, which would be a mistake of the plan's.
pub fn layout_for(requests: &Requests, aims: &Aims) -> Result<Layout, String> {
    let mut survey = Survey::new(aims.model.clone());
    for asked in &requests.keys {
        let content = Content::String(ValueShape::Bytes(u64::from(asked.value_bytes.unwrap_or(0))));
        survey.observe(
            0,
            &Observation {
                key: asked.key.clone(),
                kind: Kind::String,
                encoding: Encoding::Raw,
                content,
                usage_bytes: None,
                members: None,
                has_expiry: asked.has_expiry,
                sample: None,
            },
        );
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
    let findings = survey.finish(requests.keys() as u64);
    let aims = Aims { growth: 1.0, all_keys: (findings.keys, findings.expiring), ..aims.clone() };
    let choose = |family: &crate::survey::FamilyFindings| {
        let population = family.population()?;
        let choice = choose_among(&population, &aims, &[]);
        Some(Family { template: population.template.clone(), keys: population.keys, choice })
    };
    Plan::new(findings.families.iter().filter_map(choose).collect(), None).layout()
}
