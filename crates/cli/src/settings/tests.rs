//! Every option of `keyfold serve` can be set by the file, and what can't be is told with where it stands.

use std::fmt::Write as _;
use std::fs;

use clap::parser::ValueSource;
use tempfile::TempDir;

use super::options::Form;
use super::*;

/// A value for each option that is neither a number nor a size, a time or a path.
fn example(option: &ServeOption) -> &'static str {
    match option.form {
        Form::Switch => "true",
        Form::OnOff => "\"off\"",
        Form::Number => "7",
        Form::Size => "\"2mb\"",
        Form::Time => "\"7s\"",
        Form::Path | Form::Program => "\"some/file\"",
        Form::Text => match (option.name.as_str(), option.value_name.as_str()) {
            ("listen", _) => "[\"127.0.0.1:7001\", \"unix:run/keyfold.sock\"]",
            (_, "ADDRESS") => "\"tls://127.0.0.1:7002\"",
            (_, "URL") => "\"redis://cache:7003/1\"",
            (_, "FROM=TO") => "[\"a=b\", \"c:1=d:2\"]",
            (_, "NAME=VALUE") => "[\"hash-max-listpack-value=128\"]",
            (_, "HOST:PORT") => "[\"keyfold-1:7004\"]",
            ("max-memory", _) => "\"90%\"",
            (_, "POLICY") => "\"tinylfu\"",
            (_, "NODES") => "\"replica\"",
            (_, "TIME") => "\"500us\"",
            (_, "FILTER") => "\"warn,keyfold_proxy=debug\"",
            (_, "text|json") => "\"json\"",
            other => panic!("{other:?} has no example: write one, so that the file is tried with it"),
        },
    }
}

/// As the command line would have it.
fn expected(option: &ServeOption, directory: &Path) -> Vec<String> {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    match (option.form, option.name.as_str()) {
        (Form::Path | Form::Program, _) => vec![path("some/file")],
        (_, "listen") => vec!["127.0.0.1:7001".to_owned(), format!("unix:{}", path("run/keyfold.sock"))],
        (_, "map-address") => vec!["a=b".to_owned(), "c:1=d:2".to_owned()],
        (_, _) => vec![example(option).trim_matches(['[', ']', '"']).to_owned()],
    }
}

/// A directory with this file.
fn with_file(text: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("keyfold.toml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn args(path: &Path, more: &[&str]) -> Vec<OsString> {
    let start = ["keyfold".into(), "serve".into(), "--config".into(), path.as_os_str().to_owned()];
    start.into_iter().chain(more.iter().map(OsString::from)).collect()
}

fn read_file(text: &str, more: &[&str]) -> Result<Line, String> {
    let (_dir, path) = with_file(text);
    read(&args(&path, more)).map_err(|failure| match failure {
        Failure::Typed(error) => format!("typed: {error}"),
        Failure::File(error) => error.to_string().replace(path.to_str().unwrap(), "keyfold.toml"),
    })
}

fn setting<'a>(line: &'a Line, name: &str) -> &'a Setting {
    line.settings.all.iter().find(|setting| setting.option.name == name).unwrap()
}

/// The file with one option, and those without which it is refused.
fn file_of(option: &ServeOption, options: &[ServeOption]) -> String {
    let mut text = format!("{} = {}\n", option.name, example(option));
    loop {
        let Err(error) = read_file(&text, &[]) else { return text };
        let lacking = error.split_once(" needs ").and_then(|(_, lacking)| lacking.strip_suffix(" beside it"));
        let lacking = lacking.unwrap_or_else(|| panic!("{}: {error}", option.name));
        for name in lacking.split(" and ") {
            let other = options.iter().find(|other| other.name == name).unwrap();
            let _ = writeln!(text, "{name} = {}", example(other));
        }
    }
}

#[test]
fn the_file_can_set_every_option() {
    let options = options::all();
    assert!(options.len() > 40, "{}", options.len());
    for option in &options {
        let text = file_of(option, &options);
        let (dir, path) = with_file(&text);
        let line = read(&args(&path, &[])).unwrap_or_else(|failure| panic!("{text}: {failure:?}"));
        let setting = setting(&line, &option.name);
        assert_eq!(setting.values, expected(option, dir.path()), "{text}");
        assert_eq!(setting.source, Source::File, "{text}");
        let others = line.settings.all.iter().filter(|other| other.source == Source::File).count();
        assert_eq!(others, text.lines().count(), "{text}");
    }
}

#[test]
fn what_is_typed_wins_over_the_file() {
    let text =
        "max-clients = 5\nlisten = ['127.0.0.1:1', '127.0.0.1:2']\nupstream = 'redis://file'\nmax-in-flight = 9\n";
    let line = read_file(text, &["--max-clients", "6", "--listen=127.0.0.1:3", "redis://typed"]).unwrap();
    for (name, value, source) in [
        ("max-clients", "6", Source::Typed),
        ("listen", "127.0.0.1:3", Source::Typed),
        ("upstream", "redis://typed", Source::Typed),
        ("max-in-flight", "9", Source::File),
        ("max-arguments", "1048576", Source::Default),
    ] {
        let setting = setting(&line, name);
        assert_eq!((setting.values.as_slice(), &setting.source), (&[value.to_owned()][..], &source), "{name}");
    }
    let Command::Serve(flags) = line.cli.command else { panic!() };
    assert_eq!((flags.limits.max_clients, flags.limits.max_in_flight, flags.listen.len()), (6, 9, 1));
    assert_eq!(flags.upstream.address.unwrap().to_string(), "redis://typed:6379");
}

#[test]
fn options_behind_two_dashes_are_none() {
    let line = read_file("max-clients = 5\n", &["--", "redis://typed"]).unwrap();
    assert_eq!(setting(&line, "max-clients").values, ["5"]);
    assert_eq!(setting(&line, "upstream").values, ["redis://typed"]);
}

#[test]
fn a_switch_may_be_off() {
    let line = read_file("allow-open = false\nsplit-writes = true\nnewest-commands = false\n", &[]).unwrap();
    let Command::Serve(flags) = line.cli.command else { panic!() };
    assert_eq!((flags.access.allow_open, flags.split_writes, flags.newest_commands), (false, true, false));
}

#[test]
fn what_the_file_lacks_may_be_typed() {
    let line = read_file("tls-cert = 'c.pem'\n", &["--tls-key", "k.pem"]).unwrap();
    assert_eq!(setting(&line, "tls-key").values, ["k.pem"]);
    let line = read_file("tls-key = 'k.pem'\n", &["--tls-cert", "c.pem"]).unwrap();
    assert_eq!(setting(&line, "tls-cert").values, ["c.pem"]);
}

#[test]
fn all_mistakes_are_told_with_their_places() {
    let text = "\
max_clients = 5
max-in-flight = \"5\"
server-timeout = 5
max-request-bytes = '1tb'
read-from = 'somewhere'
connect-timeout = '0'
  split-writes = 'yes'
listen = ['127.0.0.1:1', 'nowhere']
log-format = 'xml'
log = 'info,=x=y'
config = 'other.toml'
[limits]
max-clients = 7
";
    let error = read_file(text, &[]).err().unwrap();
    let expected = [
        "keyfold.toml has 12 mistakes:",
        "keyfold.toml:1:1: there is no option max_clients; did you mean max-clients, a number without quotes, such as 20?",
        "keyfold.toml:2:17: max-in-flight is a number without quotes, such as 20, and here is text",
        "keyfold.toml:3:18: server-timeout = \"5\": write a number with ms, s, m or h",
        "keyfold.toml:4:21: max-request-bytes = \"1tb\": write a number above 0 with b, kb, mb or gb",
        "keyfold.toml:5:13: read-from = \"somewhere\": write primary, replica, nearest",
        "keyfold.toml:6:19: connect-timeout = \"0\": this one is above 0",
        "keyfold.toml:7:18: split-writes is true or false, and here is text",
        "keyfold.toml:8:26: listen = \"nowhere\": can't listen on \"nowhere\"",
        "keyfold.toml:9:14: log-format = \"xml\": write text or json",
        "keyfold.toml:10:7: log = \"info,=x=y\": ",
        "keyfold.toml:11:1: config is for the command line alone",
        "keyfold.toml:12:2: options stand in no table: take out [limits], and write max-clients above",
    ];
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{expected}\n{line}");
    }
}

#[test]
fn options_that_disagree_are_told() {
    for (text, more, expected) in [
        (
            "data = 'd'\nupstream = 'redis://a'\n",
            &[][..],
            "keyfold.toml:2:1: upstream can't be used together with data: leave one of them out",
        ),
        (
            "\nusers = 'u'\n",
            &["--password-file", "p"],
            "keyfold.toml:2:1: users can't be used together with password-file: leave one of them out",
        ),
        ("tls-cert = 'c'\n", &[], "keyfold.toml:1:1: tls-cert needs tls-key beside it"),
        ("admin-token-file = 'c'\n", &[], "keyfold.toml:1:1: admin-token-file needs admin beside it"),
    ] {
        assert_eq!(read_file(text, more).err().unwrap(), expected);
    }
    // What follows from another mistake is none of its own.
    let error = read_file("tls-cert = 'c'\ntls-client-ca = 'a'\n", &[]).err().unwrap();
    assert_eq!(error, "keyfold.toml:1:1: tls-cert needs tls-key beside it");
    let error = read_file("admin = 5\nadmin-token-file = 't'\n", &[]).err().unwrap();
    assert_eq!(error, "keyfold.toml:1:9: admin is text in quotes, and here is a whole number");
    // What is typed is complained of as ever.
    let error = read_file("max-clients = 5\n", &["--data", "d", "--upstream", "redis://a"]).err().unwrap();
    assert!(error.starts_with("typed: error: the argument '--data <DIR>' cannot be used with"), "{error}");
}

#[test]
fn secrets_are_refused_and_never_shown() {
    for text in [
        "upstream = 'redis://app:hush@cache'\n",
        "upstream = 'app:hush@cache:1'\n",
        "upstream = 'sentinel://a:1/main?sentinel_password=hush'\n",
        "upstream = 'redis://app:hush@cache:port'\n",
        "password = 'hush'\n",
        "requirepass = 'hush'\n",
        "upstream_password = 'hush'\n",
        "admin-token = 'hush'\n",
        "secret = 'hush'\n",
        "upstream-password = 'hush\n",
    ] {
        let error = read_file(text, &[]).err().unwrap();
        assert!(error.starts_with("keyfold.toml:1:") && !error.contains("hush"), "{text}: {error}");
    }
    let remedy = read_file("upstream = 'redis://app:hush@cache'\n", &[]).err().unwrap();
    assert!(remedy.contains("upstream-password-file") && remedy.contains("KEYFOLD_UPSTREAM"), "{remedy}");
    assert!(read_file("upstream = 'redis://app@cache'\nupstream-password-file = 'p'\n", &[]).is_ok());
}

#[test]
fn text_that_is_no_toml_is_told_with_its_place() {
    let error = read_file("max-clients = 5\nlisten = [\n", &[]).err().unwrap();
    assert!(error.starts_with("keyfold.toml:"), "{error}");
    let error = read_file("max-clients = 5\nmax-clients = 6\n", &[]).err().unwrap();
    assert!(error.starts_with("keyfold.toml:2:1: duplicate key"), "{error}");
}

const LAYOUT: &str =
    "max-clients = 5 # ä\n\ncluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 4 }\n";

#[test]
fn the_layout_may_stand_in_the_file() {
    let line = read_file(LAYOUT, &[]).unwrap();
    let layout = line.settings.file.unwrap().layout().unwrap().unwrap();
    assert_eq!(layout.namespaces.len(), 1);
    assert_eq!(layout, LayoutFile::parse(LAYOUT.split_once('\n').unwrap().1).unwrap(), "`cluster` is the layout's");
    let line = read_file(LAYOUT, &["--layout", "other.toml"]).unwrap();
    assert!(line.settings.file.unwrap().layout().is_none(), "what is typed wins");
    let error = read_file(&format!("layout = 'l.toml'\n{LAYOUT}"), &[]).err().unwrap();
    assert!(error.starts_with("keyfold.toml:1:1: the layout is named here, and it stands below"), "{error}");
}

#[test]
fn mistakes_in_the_layout_have_their_lines() {
    let line = read_file(&LAYOUT.replace("count", "many"), &[]).unwrap();
    let error = line.settings.file.unwrap().layout().unwrap().unwrap_err().to_string();
    assert!(error.contains("keyfold.toml:6:12: ") && error.ends_with("\n    |            ^"), "{error}");
    // Beside another mistake both are told.
    let error = read_file(&LAYOUT.replace("count = 4", "span = 1").replace("= 5", "= 'x'"), &[]).err().unwrap();
    assert!(error.starts_with("keyfold.toml has 2 mistakes:\nkeyfold.toml:1:15: max-clients"), "{error}");
    assert!(error.contains("\nkeyfold.toml:6:10: `bucket`"), "{error}");
    let error = read_file(&format!("{LAYOUT}listen = '127.0.0.1:1'\n"), &[]).err().unwrap();
    assert_eq!(error, "keyfold.toml:7:1: listen is an option of keyfold: write it above the first [[namespace]]");
}

#[test]
fn what_is_printed_says_the_same_again() {
    let options = options::all();
    let mut text = String::new();
    for option in &options {
        // What goes with a server of keyfold's own doesn't go with these.
        if !["data", "server", "users", "upstream-insecure"].contains(&option.name.as_str()) {
            let _ = writeln!(text, "{} = {}", option.name, example(option));
        }
    }
    for text in [text.as_str(), "data = 'd'\nusers = 'u'\nupstream-insecure = true\n", "", LAYOUT] {
        let more = ["--max-arguments", "77"];
        let first = read_file(text, &more).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let printed = first.settings.to_file();
        let again = read_file(&printed, &[]).unwrap_or_else(|error| panic!("{printed}\n{error}"));
        assert_eq!(first.settings.changes_to(&again.settings), [], "{printed}");
        assert!(printed.contains("\nmax-arguments = 77  # command line\n"), "{printed}");
        let layout = |line: &Line| line.settings.file.as_ref().unwrap().layout().map(Result::unwrap);
        assert_eq!(layout(&first), layout(&again), "{printed}");
    }
    let printed = read_file("", &["redis://app:hush@cache:1/2"]).unwrap().settings.to_file();
    assert!(printed.contains("\nupstream = \"redis://app@cache:1/2\"  # command line; its password is not shown"));
    assert!(!printed.contains("hush"));
}

#[test]
fn changes_are_told_by_name() {
    let before = read_file("max-clients = 5\nlisten = '127.0.0.1:1'\n", &[]).unwrap().settings;
    let after = read_file("max-clients = 6\nsplit-writes = true\nupstream = 'redis://a'\n", &[]).unwrap().settings;
    let changes = before.changes_to(&after);
    let told: Vec<_> = changes.iter().map(|change| (&*change.name, &*change.in_force, &*change.next)).collect();
    let expected = [
        ("upstream", "not set", "redis://a"),
        ("listen", "127.0.0.1:1", "127.0.0.1:6379"),
        ("split-writes", "off", "on"),
        ("max-clients", "5", "6"),
    ];
    assert_eq!(told, expected);
    let mut adopted = before.clone();
    adopted.adopt(&after, &["max-clients"]);
    assert_eq!(adopted.changes_to(&after).len(), 3, "the others are as they were");
}

/// The table of `docs/configuration.md` is made from the command line.
#[test]
fn the_page_has_every_option() {
    let page_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(&page_path).unwrap();
    let line = read(&["keyfold".into(), "serve".into()]).unwrap();
    let mut table = String::from("| option | value | default | what it is |\n| --- | --- | --- | --- |\n");
    for Setting { option, values, source } in &line.settings.all {
        assert!(*source == Source::Default || option.environment.is_some(), "{}", option.name);
        let value = match option.form {
            Form::Switch => "`true`, `false`".to_owned(),
            _ => option.value_name.split('|').map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        let value = if option.is_list { value + " …" } else { value };
        let default = match values.first().filter(|_| *source == Source::Default) {
            Some(default) => format!("`{default}`"),
            None if option.form == Form::Switch => "`false`".to_owned(),
            None => String::new(),
        };
        let help = option.help.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(table, "| `{}` | {value} | {default} | {help} |", option.name);
    }
    let start = page.find("| option | value |").expect("docs/configuration.md has the table");
    let end = page[start..].find("\n\n").map_or(page.len(), |end| start + end + 1);
    if std::env::var_os("KEYFOLD_WRITE_DOCS").is_some() {
        fs::write(&page_path, format!("{}{table}{}", &page[..start], &page[end..])).unwrap();
        return;
    }
    assert!(
        page[start..end] == table,
        "docs/configuration.md has other options; write it anew by KEYFOLD_WRITE_DOCS=1"
    );
}

/// The example of the page, as it stands there.
#[test]
fn the_example_is_right() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md")).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let line = read_file(example, &[]).unwrap();
    assert!(line.settings.all.iter().filter(|setting| setting.source == Source::File).count() >= 10);
    assert_eq!(line.settings.file.unwrap().layout().unwrap().unwrap().namespaces.len(), 1);
}

#[test]
fn other_commands_have_no_file() {
    let line = read(&["keyfold".into(), "status".into(), "redis://a".into()]).unwrap();
    assert!(line.settings.file.is_none() && line.settings.all.is_empty());
    let typed = Cli::command().try_get_matches_from(["keyfold", "serve", "--log", "debug"]).unwrap();
    let serve = typed.subcommand_matches("serve").unwrap();
    assert_eq!(
        serve.value_source("log"),
        Some(ValueSource::CommandLine),
        "what goes with every command is known there"
    );
}

#[test]
fn an_address_that_is_wrong_is_told_without_its_password() {
    for (address, shown) in [
        ("redis://app:a/b+c=@127.0.0.1:1", "redis://…@127.0.0.1:1"),
        ("redis://:12/34@cache", "redis://…@cache"),
        ("app:b+c=@cache:x", "…@cache:x"),
        ("cluster://app:b+c?@cache:1,other:2", "cluster://…@cache:1,other:2"),
        ("sentinel://a:1/main?sentinel_password=b+c&what=1", "sentinel://a:1/main?…"),
        ("redis://cache:port", "redis://cache:port"),
    ] {
        for command in ["status", "serve", "analyze", "top"] {
            let option = if command == "top" { vec![] } else { vec!["--upstream"] };
            let line = [vec!["keyfold", command], option, vec![address]].concat();
            let line: Vec<OsString> = line.into_iter().map(OsString::from).collect();
            let Err(Failure::Typed(error)) = read(&line) else { panic!("{address} is taken by {command}") };
            let error = error.to_string();
            assert!(error.contains(&format!("invalid value '{shown}'")), "{command}: {error}");
            assert!(!error.contains("b+c") && !error.contains("34@"), "{command}: {error}");
        }
    }
}
