use super::*;
use crate::change::{HOLD_MS, Owner};
use crate::layout::Epoch;

const CHANGE: u64 = 7;
const BASE: Revision = Revision { epoch: Epoch(1), attempt: crate::layout::Attempt(5) };

fn coordinator() -> Coordinator {
    Coordinator::new(CHANGE, Register::of(b"1"), b"2", BASE)
}

fn connection(id: i64, owner: Owner) -> Connection {
    Connection { node: 0, id, owner, address: String::new() }
}

fn member(id: i64, name: &str) -> Connection {
    connection(id, Owner::Member(name.into()))
}

/// What it does at this time, with these answers to its announcement.
fn at(coordinator: &mut Coordinator, now_ms: i64, answers: &[(&str, &str)]) -> Course {
    let time = format!("*2\r\n$1\r\n{}\r\n$6\r\n{:06}\r\n", now_ms / 1000, now_ms % 1000 * 1000);
    let mut wire = format!("*{}\r\n", answers.len() * 2);
    assert!(now_ms < 10_000);
    for (member, word) in answers {
        let text = format!("{word} {CHANGE:x} {} {BASE} {member}", coordinator.attempt);
        wire += &format!("${}\r\n{member}\r\n${}\r\n{text}\r\n", member.len(), text.len());
    }
    let announcement = coordinator.seen.announcement.clone().unwrap_or_default();
    let mut keys = "*3\r\n".to_owned();
    keys += &match String::from_utf8(announcement).unwrap() {
        none if none.is_empty() => "$-1\r\n".to_owned(),
        text => format!("${}\r\n{text}\r\n", text.len()),
    };
    keys += "$1\r\n1\r\n$1\r\n1\r\n";
    coordinator.see(&[time.into_bytes(), wire.into_bytes(), keys.into_bytes()]).unwrap();
    coordinator.decide()
}

fn announce(coordinator: &mut Coordinator, course: &Course, phase: Phase) {
    let Course::Announce(announcement) = course else { panic!("{course:?}") };
    assert_eq!(announcement.phase, phase);
    coordinator.announced(announcement, b":1\r\n").unwrap();
    coordinator.seen.announcement = Some(announcement.to_string().into_bytes());
}

#[test]
fn who_is_silent_is_closed_and_who_answers_is_waited_for() {
    let mut coordinator = coordinator();
    let course = at(&mut coordinator, 0, &[]);
    announce(&mut coordinator, &course, Phase::Prepare);
    assert_eq!(at(&mut coordinator, 0, &[]), Course::List);
    let there = vec![member(1, "a"), member(2, "b"), connection(3, Owner::Writer)];
    coordinator.listed(there.clone());
    assert_eq!(at(&mut coordinator, 1000, &[("a", "ready")]), Course::Wait(3), "for b");
    let course = at(&mut coordinator, 4000, &[("a", "ready")]);
    announce(&mut coordinator, &course, Phase::Hold);
    assert_eq!(at(&mut coordinator, 4000, &[("a", "ready")]), Course::Wait(1), "for a");
    assert_eq!(at(&mut coordinator, 4000, &[("a", "held")]), Course::List);
    coordinator.listed(there);
    let course = at(&mut coordinator, 4000, &[("a", "held")]);
    assert_eq!(course, Course::Close(vec![member(2, "b"), connection(3, Owner::Writer)]));
    coordinator.closed();
    assert_eq!(at(&mut coordinator, 4000, &[("a", "held")]), Course::List, "whether they are closed");
    coordinator.listed(vec![member(1, "a")]);
    assert_eq!(at(&mut coordinator, 4000, &[("a", "held")]), Course::Activate);
    let mut wire = Vec::new();
    coordinator.activate(&mut wire);
    let wire = wire.escape_ascii().to_string();
    assert!(wire.contains("+held 7 2 1.0000000000000005 a") && !wire.contains("$1\\r\\nb"), "{wire}");
}

#[test]
fn who_could_not_know_yet_is_not_silent() {
    let mut coordinator = coordinator();
    let course = at(&mut coordinator, 0, &[]);
    announce(&mut coordinator, &course, Phase::Prepare);
    coordinator.listed(vec![member(1, "a")]);
    assert_eq!(at(&mut coordinator, 4000, &[]), Course::Wait(3), "it stood still itself, perhaps before it announced");
    assert_eq!(at(&mut coordinator, 4000 + READY_MS - 1, &[]), Course::Wait(3));
    let course = at(&mut coordinator, 4000 + READY_MS, &[]);
    announce(&mut coordinator, &course, Phase::Hold);
}

#[test]
fn what_was_lost_is_put_back_past_nobody_who_is_silent() {
    let mut coordinator = coordinator().hearing_all();
    let course = at(&mut coordinator, 0, &[]);
    announce(&mut coordinator, &course, Phase::Prepare);
    coordinator.listed(vec![member(1, "a"), member(2, "b")]);
    assert_eq!(at(&mut coordinator, 1000, &[("a", "ready")]), Course::Wait(3), "for b");
    let gave_up = at(&mut coordinator, 4000, &[("a", "ready")]);
    assert_eq!(gave_up, Course::GiveUp(Obstacle::Unheard(vec!["b".to_owned()])));
    let course = at(&mut coordinator, 4000, &[("a", "ready"), ("b", "ready")]);
    announce(&mut coordinator, &course, Phase::Hold);
    let late = at(&mut coordinator, 4000, &[("a", "held"), ("b", "ready")]);
    assert_eq!(late, Course::Wait(1), "nor past one that is slow");
}

#[test]
fn who_cannot_stop_is_asked_again_and_a_newcomer_is_waited_for() {
    let mut coordinator = coordinator();
    let course = at(&mut coordinator, 0, &[]);
    announce(&mut coordinator, &course, Phase::Prepare);
    coordinator.listed(vec![member(1, "a")]);
    let course = at(&mut coordinator, 0, &[("a", "ready")]);
    announce(&mut coordinator, &course, Phase::Hold);
    assert_eq!(at(&mut coordinator, 0, &[("a", "held")]), Course::List);
    coordinator.listed(vec![member(1, "a"), member(2, "new")]);
    assert_eq!(at(&mut coordinator, 0, &[("a", "held")]), Course::Wait(1));
    let course = at(&mut coordinator, 1000, &[("a", "held")]);
    announce(&mut coordinator, &course, Phase::Prepare);
    assert_eq!(at(&mut coordinator, 1000, &[("a", "ready")]), Course::Wait(3));
    coordinator.attempt = MAX_ATTEMPTS;
    let announcement = Announcement {
        attempt: ChangeAttempt { change: CHANGE, number: MAX_ATTEMPTS },
        phase: Phase::Hold,
        to: Epoch(2),
    };
    coordinator.seen.announcement = Some(announcement.to_string().into_bytes());
    let patient = at(&mut coordinator, 1000 + 4 * HOLD_MS - 1, &[("a", "held"), ("new", "serving")]);
    assert_eq!(patient, Course::Wait(1), "the last tries are longer");
    let gave_up = at(&mut coordinator, 1000 + 4 * HOLD_MS, &[("a", "held"), ("new", "serving")]);
    assert_eq!(gave_up, Course::GiveUp(Obstacle::NotHeld(vec!["new".to_owned()])));
}

#[test]
fn what_a_member_knows_is_not_lost() {
    let mut coordinator = coordinator();
    let course = at(&mut coordinator, 0, &[]);
    announce(&mut coordinator, &course, Phase::Prepare);
    coordinator.listed(vec![member(1, "a")]);
    coordinator.base.attempt = crate::layout::Attempt(4);
    let gave_up = at(&mut coordinator, 0, &[("a", "ready")]);
    assert_eq!(gave_up, Course::GiveUp(Obstacle::SetBack(vec!["a".to_owned()])));
    let mut wire = Vec::new();
    coordinator.withdraw(&mut wire);
    assert!(wire.escape_ascii().to_string().contains("7 2 prepare 2"), "who has stopped goes on");
}

#[test]
fn another_change_goes_first() {
    let mut coordinator = coordinator();
    coordinator.seen.announcement = Some(b"8 1 hold 2".to_vec());
    assert_eq!(at(&mut coordinator, 0, &[]), Course::Wait(3));
    let mut wire = Vec::new();
    coordinator.withdraw(&mut wire);
    assert!(!wire.escape_ascii().to_string().contains("8 1 hold"), "it takes back only its own");
    assert_eq!(coordinator.decide(), Course::Wait(3));
    coordinator.began_ms = Some(-TURN_MS - 1);
    assert_eq!(coordinator.decide(), Course::GiveUp(Obstacle::Busy));
    coordinator.seen.register = Register::of(b"2");
    assert_eq!(coordinator.decide(), Course::Done);
    coordinator.seen.register = Register::of(b"3");
    assert_eq!(coordinator.decide(), Course::GiveUp(Obstacle::Changed));
}
