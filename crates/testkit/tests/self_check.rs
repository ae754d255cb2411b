//! The drivers judge rightly: two servers of one version agree, and a subject that is wrong is found out.

use keyfold_testkit::conformance;
use keyfold_testkit::{Sides, found};

#[test]
fn every_server_conforms_to_itself() {
    for binary in found() {
        let (plain, subject) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let sides = Sides { plain: plain.address(), subject: subject.address() };
        let (count, differences) = conformance::run_all(sides, "");
        assert!(count > 0);
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert!(shown.is_empty(), "{}, {} of {count}:\n{}", binary.name(), shown.len(), shown.join("\n"));
    }
}
