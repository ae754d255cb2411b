//! COMMAND INFO and COMMAND DOCS of commands that folded keys know and the server behind doesn't ([`crate::dialect`]): the
//! server's answer, with what it lacks put in.

use crate::command::keys::Begin;
use crate::command::{Access, Command, Find, KeySpec, RequestPolicy, ResponsePolicy, table};
use crate::dialect::Dialect;
use crate::exchange::{Effect, Io, Step, done};
use crate::resp::{Answer, Protocol, Reply};

/// What COMMAND DOCS says of each: in a few words, since which release, how long it takes.
const DOCS: &[(&str, [&str; 3])] = &[
    (
        "delex",
        ["Deletes a key, on a condition on its value.", "8.4.0", "O(1), O(N) where the digest of a value is compared"],
    ),
    ("delifeq", ["Deletes a key whose value is as given.", "9.0.0", "O(1)"]),
    ("digest", ["Returns the digest of a value.", "8.4.0", "O(N) where N is the length of the value"]),
    ("increx", ["Increments a number within bounds, and sets its expiry.", "8.8.0", "O(1)"]),
    (
        "msetex",
        ["Sets keys on a common condition, with a common expiry.", "8.4.0", "O(N) where N is the number of keys"],
    ),
];

/// Such a question under way.
#[derive(Debug)]
pub(crate) struct LaterCommands {
    /// For each name that was asked for, the command where the server lacks it.
    lacked: Vec<Option<&'static Command>>,
    asks_docs: bool,
    protocol: Protocol,
}

/// The command that a client means, where folded keys know it and the server doesn't.
pub(crate) fn lacked(args: &[&[u8]], dialect: Dialect<'_>) -> Option<&'static Command> {
    let command = table().lookup(args.first()?)?;
    command.since.is_some_and(|since| dialect.knows(since) && !dialect.server_has(since)).then_some(command)
}

impl LaterCommands {
    /// The question that a COMMAND INFO or COMMAND DOCS is, where the server can't answer all of it.
    pub(crate) fn asked_by(args: &[&[u8]], asks_docs: bool, protocol: Protocol, dialect: Dialect<'_>) -> Option<Self> {
        let names = args.get(2..).unwrap_or_default();
        let lacked: Vec<_> = names.iter().map(|name| lacked(&[name], dialect)).collect();
        lacked.iter().any(Option::is_some).then_some(Self { lacked, asks_docs, protocol })
    }

    /// Takes the server's answer.
    pub(crate) fn handle_reply(&self, reply: &[u8], io: &mut Io<'_>) -> Step {
        let mut answer = Answer::new(io.answer, self.protocol);
        match Reply::parse(reply) {
            Ok(Reply::Map(elements) | Reply::Array(elements)) if self.asks_docs => {
                let lacked = || self.lacked.iter().flatten();
                answer.map(elements.len() / 2 + lacked().count());
                answer.raw(elements.raw());
                lacked().for_each(|command| write_docs(command, &mut answer));
            }
            Ok(Reply::Array(mut elements)) => {
                answer.array(elements.len());
                let mut lacked = self.lacked.iter();
                while let Some(element) = elements.next_raw() {
                    match lacked.next().copied().flatten() {
                        Some(command) if Reply::parse(element) == Ok(Reply::Nil) => write_info(command, &mut answer),
                        _ => answer.raw(element),
                    }
                }
            }
            Ok(Reply::Error(_)) => return done(io, reply),
            _ => return Step::Unexpected,
        }
        Step::Done(Effect::None)
    }
}

fn write_docs(command: &Command, answer: &mut Answer<'_>) {
    let known = DOCS.iter().find(|(name, _)| *name == command.name);
    let [summary, since, complexity] = known.map_or([""; 3], |(_, texts)| *texts);
    answer.bulk(command.name.as_bytes());
    let texts = [("summary", summary), ("since", since), ("group", "string"), ("complexity", complexity)];
    answer.map(texts.len());
    for text in texts.iter().flat_map(|(name, text)| [name, text]) {
        answer.bulk(text.as_bytes());
    }
}

/// Writes what COMMAND INFO says of a command (`addReplyCommandInfo`, server.c of Valkey 9.1).
fn write_info(command: &Command, answer: &mut Answer<'_>) {
    answer.array(10);
    answer.bulk(command.name.as_bytes());
    answer.integer(command.arity.into());
    write_names(command.flags.iter_names().map(|(name, _)| name.to_lowercase()), answer);
    // The keys where they stand at fixed places, as one range.
    let range = match command.keys.as_slice() {
        [KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, .. }, .. }] => {
            let last = if *last < 0 { *last } else { last.saturating_add_unsigned(*first) };
            [i64::try_from(*first), i64::try_from(last), i64::try_from(*step)].map(Result::unwrap_or_default)
        }
        _ => [0; 3],
    };
    range.into_iter().for_each(|number| answer.integer(number));
    write_names(command.categories.iter_names().map(|(name, _)| format!("@{}", name.to_lowercase())), answer);
    let tips = tips(command);
    answer.set(tips.len());
    tips.iter().for_each(|tip| answer.bulk(tip.as_bytes()));
    answer.set(command.keys.len());
    command.keys.iter().for_each(|spec| write_spec(spec, answer));
    // It has no subcommands.
    answer.array(0);
}

fn tips(command: &Command) -> Vec<&'static str> {
    let request = (command.cluster.request == RequestPolicy::MultiShard).then_some("request_policy:multi_shard");
    let response =
        (command.cluster.response == ResponsePolicy::AllSucceeded).then_some("response_policy:all_succeeded");
    request.into_iter().chain(response).collect()
}

fn write_names(names: impl Iterator<Item = String>, answer: &mut Answer<'_>) {
    let names: Vec<String> = names.collect();
    answer.set(names.len());
    names.iter().for_each(|name| answer.simple(name));
}

/// Writes what is done with a key, in the servers' words.
pub(crate) fn write_access(access: Access, answer: &mut Answer<'_>) {
    // What is done with the key as a whole is written large.
    let names =
        access.iter_names().map(|(name, _)| if name.len() == 2 { name.to_owned() } else { name.to_lowercase() });
    write_names(names, answer);
}

fn write_spec(spec: &KeySpec, answer: &mut Answer<'_>) {
    let numbers = |answer: &mut Answer<'_>, kind: &str, numbers: &[(&str, i64)]| {
        answer.map(2);
        answer.bulk(b"type");
        answer.bulk(kind.as_bytes());
        answer.bulk(b"spec");
        answer.map(numbers.len());
        for (name, number) in numbers {
            answer.bulk(name.as_bytes());
            answer.integer(*number);
        }
    };
    let number = |number: usize| i64::try_from(number).unwrap_or_default();
    answer.map(3);
    answer.bulk(b"flags");
    write_access(spec.access, answer);
    answer.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => numbers(answer, "index", &[("index", number(index))]),
        Begin::Keyword { .. } | Begin::Unknown => numbers(answer, "unknown", &[]),
    }
    answer.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let last = i64::try_from(last).unwrap_or_default();
            let all = [("lastkey", last), ("keystep", number(step)), ("limit", number(limit))];
            numbers(answer, "range", &all);
        }
        Find::Number { number_at, first_at, step } => {
            let all = [("keynumidx", number_at), ("firstkey", first_at), ("keystep", step)];
            numbers(answer, "keynum", &all.map(|(name, count)| (name, number(count))));
        }
        Find::Unknown => numbers(answer, "unknown", &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_info::ServerInfo;

    fn told(command: &str, reply: &str, protocol: Protocol) -> Option<String> {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let server = ServerInfo { name: "redis".to_owned(), version: "7.0.15".to_owned() };
        let asks_docs = args[1] == b"DOCS";
        let question = LaterCommands::asked_by(&args, asks_docs, protocol, Dialect::new(&server, true))?;
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        question.handle_reply(reply.as_bytes(), &mut Io { wire: &mut wire, answer: &mut answer });
        Some(String::from_utf8(answer).unwrap())
    }

    #[test]
    fn what_the_server_lacks_is_put_where_it_answers_nothing() {
        // As a Valkey 9.1.2 says it.
        let delifeq = "*10\r\n$7\r\ndelifeq\r\n:3\r\n~2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n~3\r\n+@write\r\n+@string\r\n\
                       +@fast\r\n~0\r\n~1\r\n%3\r\n$5\r\nflags\r\n~2\r\n+RM\r\n+delete\r\n$12\r\nbegin_search\r\n%2\r\n$4\r\n\
                       type\r\n$5\r\nindex\r\n$4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n\
                       $5\r\nrange\r\n$4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n\
                       *0\r\n";
        let told = told("COMMAND INFO get DelIfEq nope", "*3\r\n*1\r\n:1\r\n_\r\n_\r\n", Protocol::Resp3);
        assert_eq!(told.unwrap(), format!("*3\r\n*1\r\n:1\r\n{delifeq}_\r\n"));
    }

    #[test]
    fn keys_that_a_number_counts_are_told_so() {
        let told = told("COMMAND INFO MSETEX", "*1\r\n*-1\r\n", Protocol::Resp2).unwrap();
        let keys = "$6\r\nkeynum\r\n$4\r\nspec\r\n*6\r\n$9\r\nkeynumidx\r\n:0\r\n$8\r\nfirstkey\r\n:1\r\n$7\r\nkeystep\r\n:2\r\n";
        assert!(told.starts_with(
            "*1\r\n*10\r\n$6\r\nmsetex\r\n:-4\r\n*3\r\n+write\r\n+denyoom\r\n+movablekeys\r\n:0\r\n:0\r\n:0\r\n"
        ));
        assert!(told.contains(keys) && told.contains("$26\r\nrequest_policy:multi_shard\r\n"), "{told}");
    }

    #[test]
    fn docs_come_behind_the_servers() {
        let told_in = |reply, protocol| told("COMMAND DOCS get DIGEST", reply, protocol).unwrap();
        assert!(
            told_in("%1\r\n$3\r\nget\r\n%0\r\n", Protocol::Resp3)
                .starts_with("%2\r\n$3\r\nget\r\n%0\r\n$6\r\ndigest\r\n%4\r\n")
        );
        assert!(
            told_in("*2\r\n$3\r\nget\r\n*0\r\n", Protocol::Resp2)
                .starts_with("*4\r\n$3\r\nget\r\n*0\r\n$6\r\ndigest\r\n*8\r\n")
        );
    }

    #[test]
    fn all_else_is_the_servers() {
        assert_eq!(told("COMMAND INFO GET NOPE", "", Protocol::Resp2), None);
        assert_eq!(told("COMMAND INFO", "", Protocol::Resp2), None);
        let error = "-NOPERM no\r\n";
        assert_eq!(told("COMMAND INFO DELEX", error, Protocol::Resp2).unwrap(), error);
    }

    #[test]
    fn all_such_commands_are_documented() {
        for command in table().iter().filter(|command| command.since.is_some()) {
            assert!(DOCS.iter().any(|(name, _)| *name == command.name), "{}", command.name);
            assert!(command.categories.contains(crate::command::Categories::STRING), "{}", command.name);
        }
    }
}
