//! Values and the dictionaries they were written by, once the layout that names them is lost.

use keyfold_testkit::{Binary, Wire};

use super::stage::{ADMIN_KEYS, Stage, get, on_every_server};

const LAYOUT: &str = "[[namespace]]\nkeys = 'page:{id:int}'\nbucket = { count = 64 }\ncodec = 'zstd'\n";

fn value(id: u32, word: &str) -> String {
    format!("{{\"id\":{id},\"kind\":\"{word}\",\"name\":\"{word} number {id}\",\"tags\":[\"{word}\",\"of many\"]}}")
}

/// Values by one dictionary.
fn trained(binary: &Binary) -> Stage {
    let stage = Stage::plain(binary, &[]);
    let mut wire = stage.connect();
    for id in 0..1500_u32 {
        let (key, value) = (format!("page:{id}"), value(id, "first"));
        wire.call(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap();
    }
    stage.fold(LAYOUT, &[]).assert(0, &[]);
    stage
}

/// Writes values that are unlike the first, and trains anew.
fn train_again(stage: &Stage) {
    let keyfold = stage.keyfold();
    let mut wire = Wire::connect(keyfold.address()).unwrap();
    for id in 10_000..11_500_u32 {
        let (key, value) = (format!("page:{id}"), value(id * 31, "another kind of thing"));
        assert_eq!(wire.call(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap(), b"+OK\r\n");
    }
    let ran = stage.run(&["train", &stage.server.url()]);
    assert!(matches!(ran.code, Some(0 | 3)), "{}\n{}", ran.stdout, ran.stderr);
}

fn read_all(stage: &Stage) -> (u64, u64) {
    let keyfold = stage.keyfold();
    let mut wire = Wire::connect(keyfold.address()).unwrap();
    let (mut right, mut refused) = (0, 0);
    for id in 0..1500_u32 {
        match get(&mut wire, &format!("page:{id}")) {
            Ok(found) => {
                assert_eq!(found, Some(value(id, "first")), "page:{id}: never another value, never none");
                right += 1;
            }
            Err(error) => {
                assert!(error.starts_with('-'), "{error}");
                refused += 1;
                wire = Wire::connect(keyfold.address()).unwrap();
            }
        }
    }
    (right, refused)
}

#[test]
fn recorded_slots_bring_every_value_back() {
    on_every_server(|binary, what| {
        let stage = trained(binary);
        stage.lose(&ADMIN_KEYS);
        stage.recover(Some(LAYOUT), &[]).assert(0, &[]);
        assert_eq!(read_all(&stage), (1500, 0), "{what}");
        train_again(&stage);
        assert_eq!(read_all(&stage), (1500, 0), "{what}: the new dictionary has a slot of its own");
    });
}

#[test]
fn without_the_record_no_value_meets_another_dictionary() {
    on_every_server(|binary, what| {
        let stage = trained(binary);
        stage.lose(&ADMIN_KEYS);
        stage.lose(&["keyfold:{home}:dictionaries"]);
        stage.recover(Some(LAYOUT), &[]).assert(0, &[]);
        let (right, refused) = read_all(&stage);
        assert!(refused > 1000 && right + refused == 1500, "{what}: {right} and {refused}");
        train_again(&stage);
        assert_eq!(read_all(&stage), (right, refused), "{what}");
    });
}
