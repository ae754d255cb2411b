//! Sentinels replace a primary by command and where it dies, and can be wrong about it.

use std::time::Instant;

use keyfold_testkit::cluster::PATIENCE;
use keyfold_testkit::patience::wait_for;
use keyfold_testkit::sentinel::{NAME, Options};
use keyfold_testkit::{Binary, Sentinels, Value};

use crate::{each, newest_and_others};

#[test]
fn sentinels_see_to_a_primary() {
    each(&newest_and_others().0, see_to_a_primary);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn sentinels_see_to_a_primary_on_all_others() {
    each(&newest_and_others().1, see_to_a_primary);
}

fn see_to_a_primary(binary: &Binary) {
    let mut sentinels = Sentinels::start(binary, 3).unwrap();
    assert_eq!(sentinels.primary().unwrap(), 0);
    let ok = sentinels.connect_server(0).unwrap().ask(&[b"SET", b"a", b"1"]).unwrap();
    assert_eq!(ok, Value::Simple(b"OK".to_vec()));

    let start = Instant::now();
    let second = sentinels.fail_over().unwrap();
    eprintln!("{}: told, followed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    assert_ne!(second, 0);
    assert_eq!(sentinels.connect_server(second).unwrap().ask(&[b"GET", b"a"]).unwrap().bytes(), Some(b"1".as_slice()));

    // One Sentinel is away, and is told later.
    sentinels.kill_sentinel(2);
    assert!(sentinels.connect(2).is_err());
    let start = Instant::now();
    sentinels.kill_server(second);
    let third = sentinels.wait_for_successor(second).unwrap();
    eprintln!("{}: killed, followed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    assert_ne!(third, second);
    sentinels.restart_server(second).unwrap();
    sentinels.restart_sentinel(2).unwrap();
    sentinels.wait_until_settled().unwrap();
    eprintln!("{}: back after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    // On a slow machine Sentinels may have taken another one for dead meanwhile.
    let third = wait_for("the one that was away to name the primary", PATIENCE, || {
        let primary = sentinels.primary().map_err(|error| error.to_string())?;
        let named = sentinels.named_by(2).map_err(|error| error.to_string())?;
        if named == Some(primary) { Ok(primary) } else { Err(format!("it names {named:?}, not {primary}")) }
    })
    .unwrap();

    // One that is frozen comes back as a primary, until it is told: then all agree on one.
    let start = Instant::now();
    sentinels.freeze_server(third).unwrap();
    let fourth = sentinels.wait_for_successor(third).unwrap();
    eprintln!("{}: frozen, followed after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    sentinels.wake_server(third).unwrap();
    sentinels.wait_until_settled().unwrap();
    eprintln!("{}: back after {:.1} s", binary.name(), start.elapsed().as_secs_f64());
    assert_ne!(fourth, third);
}

#[test]
fn sentinels_have_passwords_and_may_be_wrong() {
    each(&newest_and_others().0, |binary| {
        let options = Options {
            replicas: 1,
            sentinel_password: Some("watch".to_owned()),
            password: Some("secret".to_owned()),
            ..Options::default()
        };
        let sentinels = Sentinels::start_with(binary, 3, &options).unwrap();
        let mut wire = keyfold_testkit::Wire::connect(sentinels.addresses()[0]).unwrap();
        let reply = wire.ask(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", NAME.as_bytes()]).unwrap();
        assert!(matches!(&reply, Value::Error(error) if error.starts_with(b"NOAUTH")), "{reply:?}");
        assert_eq!(sentinels.named_by(0).unwrap(), Some(0));

        let stranger = binary.start(&[]).unwrap();
        sentinels.mislead(1, stranger.address()).unwrap();
        let reply = sentinels.ask(1, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).unwrap();
        assert_eq!(reply.elements().unwrap()[1].integer(), Some(i64::from(stranger.port())));
        assert_eq!((sentinels.named_by(0).unwrap(), sentinels.named_by(1).unwrap()), (Some(0), None));
        sentinels.forget(2).unwrap();
        assert_eq!(sentinels.ask(2, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).unwrap(), Value::NilArray);
    });
}
