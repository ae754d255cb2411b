//! The families of real keys are found from the keys and values alone.

use keyfold_core::memory::{Model, Server};
use keyfold_survey::observation::Observation;
use keyfold_survey::survey::Survey;
use keyfold_testkit::memory::case::Data;
use keyfold_testkit::memory::real;

/// What is found in each file: the families that have at least one key in a hundred.
const FOUND: [(&str, &[&str]); 11] = [
    ("access_logs", &["log:apache:{id:int}", "log:nasa95:{id:int}"]),
    ("cities_json", &["city:{id:int}"]),
    ("city_state_int", &["{id:int}"]),
    ("cldr_text", &["l10n:{name}:{name2}:{part}"]),
    ("debian_json", &["pkg:{name}"]),
    ("debian_sha256", &["{id:hex}"]),
    ("stix_uuid_json", &["{id:uuid}"]),
    ("sx_posts_html", &["post:{id:int}:body"]),
    ("tldr_md", &["{name}/{name2}/{part}"]),
    ("words_alpha", &["{name}"]),
    ("words_phonemes", &["w:{name}"]),
];

#[test]
fn real_keys() {
    let Some(directory) = real::directory() else {
        eprintln!("skipped: no real data beside the workspace or under KEYFOLD_DATA");
        return;
    };
    for cases in real::cases(&directory, usize::MAX) {
        let [plain, _] = cases.unwrap();
        let (_, expected) = FOUND.iter().find(|(name, _)| plain.name.starts_with(name)).unwrap();
        let mut survey = Survey::new(Model::for_server(Server::redis(7, 0)));
        let Data::Strings(records) = &plain.data else { panic!("real records are strings") };
        for record in records {
            survey.observe(0, &Observation::of_string(&record.key, &record.value));
        }
        let keys = plain.records as f64;
        let findings = survey.finish(0);
        let large = findings.families.iter().filter(|family| family.keys.value >= keys / 100.0);
        let mut names: Vec<_> = large.map(|family| family.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, *expected, "{}", plain.name);
        assert!(findings.families.iter().all(|family| family.template.is_some() || family.keys.value < 2.0));
    }
}
