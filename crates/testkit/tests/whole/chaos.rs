//! A slice of `make chaos`: a few rounds in which nodes of a cluster and keyfolds before it fail under load.

use std::process::Command;

use keyfold_testkit::servers::newest_and_others;

#[test]
fn no_answer_is_wrong_while_nodes_fail() {
    let (newest, _) = newest_and_others();
    for binary in newest {
        let mut chaos = Command::new(env!("CARGO_BIN_EXE_chaos"));
        let output = chaos.args(["--rounds", "2", "--seed", "3", "--server", &binary.name()]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}
