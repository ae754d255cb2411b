//! A namespace keyed by a secret that the operator keeps in a file.

use keyfold_testkit::found;
use tempfile::TempDir;

use super::keyfold::{Keyfold, run, write_layout};

const OPEN: &str = "[[namespace]]\nkeys = 'user:{name}'\nbucket = { count = 16 }\n";
const KEYED: &str = "[[namespace]]\nkeys = 'user:{name}'\nbucket = { count = 16 }\nkeyed = true\n";

fn secret(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn keys_are_found_with_the_secret_and_refused_without() {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let url = server.url();
        let ours = secret(&dir, "ours", "correct horse battery staple\n");
        let other = secret(&dir, "other", "another secret of somebody\n");
        let open = write_layout(dir.path(), OPEN).to_str().unwrap().to_owned();
        let mut wire = server.connect().unwrap();
        for id in 0..200 {
            wire.call(&[b"SET", format!("user:{id}").as_bytes(), id.to_string().as_bytes()]).unwrap();
        }
        let (code, _, stderr) = run(&["fold", &url, "--layout", &open, "--yes"]);
        assert_eq!(code, Some(0), "{}: {stderr}", server.name());

        let keyed = write_layout(dir.path(), KEYED).to_str().unwrap().to_owned();
        let (code, _, stderr) = run(&["layout", "check", &keyed]);
        assert!(
            code == Some(1) && stderr.contains("layout.toml:4:9: `keyed`: ") && stderr.contains("--secret-file"),
            "{stderr}"
        );
        let (code, _, stderr) = run(&["layout", "push", &keyed, "--upstream", &url, "--secret-file", &ours]);
        assert!(code == Some(1) && stderr.contains("move them with `keyfold fold`"), "{stderr}");
        let (code, _, stderr) = run(&["fold", &url, "--layout", &keyed, "--yes", "--secret-file", &ours]);
        assert_eq!(code, Some(0), "{}: {stderr}", server.name());

        let all = Keyfold::serve(&["--upstream", &url, "--secret-file", &ours]);
        let mut client = all.connect();
        for id in 0..200 {
            let value = client.ask(&[b"GET", format!("user:{id}").as_bytes()]).unwrap();
            assert_eq!(value.bytes(), Some(id.to_string().as_bytes()), "{}", server.name());
        }
        for given in [&[][..], &["--secret-file", &other]] {
            let refused = ["serve", "--listen", "127.0.0.1:0", "--upstream", &url];
            let (code, stdout, stderr) = run(&[&refused, given].concat());
            assert_eq!((code, stdout.as_str()), (Some(1), ""), "{}: {stderr}", server.name());
            assert!(stderr.contains("give its file with --secret-file"), "{stderr}");
        }
        let (code, _, stderr) = run(&["verify", &url]);
        assert!(code == Some(1) && stderr.contains("--secret-file"), "{stderr}");
        let (code, stdout, stderr) = run(&["verify", &url, "--secret-file", &ours]);
        assert_eq!(code, Some(0), "{}: {stdout}{stderr}", server.name());
        let stored = wire.call(&[b"GET", b"keyfold:{home}:layout"]).unwrap();
        assert!(!String::from_utf8(stored).unwrap().contains("horse"), "the secret is not in the server");
    }
}

#[test]
fn a_file_that_holds_no_secret_is_refused() {
    let dir = TempDir::new().unwrap();
    let layout = write_layout(dir.path(), OPEN).to_str().unwrap().to_owned();
    let (code, _, stderr) = run(&["layout", "check", &layout, "--secret-file", &secret(&dir, "short", "12345\n")]);
    assert!(code == Some(1) && stderr.contains("a secret has 16 bytes at the least, and this one has 5"), "{stderr}");
    let (code, _, stderr) = run(&["layout", "check", &layout, "--secret-file", "nowhere"]);
    assert!(code == Some(1) && stderr.contains("--secret-file: can't read nowhere"), "{stderr}");
}
