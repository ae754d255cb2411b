//! Who is let in.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use keyfold_proxy::config::{Admin, ClientTls};
use keyfold_proxy::{AdminToken, Handle, StartError, start};
use keyfold_testkit::Certificates;

use super::{Told, admin, admin_address, ask, ask_on, read_told};
use crate::stage::{config_for, eventually, serve, stage_with, start_server};
use crate::transport::tls_client;

const TOKEN: &str = "a token that nobody guesses";

fn token() -> (tempfile::NamedTempFile, AdminToken) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), TOKEN).unwrap();
    let token = AdminToken::read(file.path()).unwrap();
    (file, token)
}

#[test]
fn nobody_beyond_this_machine_is_let_in_who_shows_nothing() {
    let server = start_server(&[]);
    let refused = |listen: &str, tls: Option<ClientTls>| {
        let mut config = config_for(&server);
        config.admin = Some(Admin { tls, ..Admin::at(listen.parse().unwrap()) });
        match start(config) {
            Err(StartError::OpenToOperators(address)) => StartError::OpenToOperators(address).to_string(),
            other => panic!("{listen}: {other:?}"),
        }
    };
    let files = Certificates::of(&["localhost"]).unwrap();
    let tls = |client_ca| ClientTls { cert: files.cert.clone(), key: files.key.clone(), client_ca };
    for (listen, tls) in [
        ("0.0.0.0:0", None),
        ("[::]:0", None),
        ("0.0.0.0:0", Some(tls(Some(files.ca.clone())))),
        ("tls://0.0.0.0:0", Some(tls(None))),
    ] {
        let why = refused(listen, tls);
        assert!(
            why.contains("--admin-token-file") && why.contains("--admin-client-ca") && why.contains("127.0.0.1"),
            "{why}"
        );
    }
    let mut config = config_for(&server);
    config.admin = Some(Admin::at("tls://127.0.0.1:0".parse().unwrap()));
    let why = start(config).unwrap_err().to_string();
    assert!(why.contains("--tls-cert"), "{why}");
}

#[test]
fn a_token_is_shown_for_all_but_health_whose_details_it_shows() {
    let (file, token) = token();
    let mut server = start_server(&[]);
    let mut config = config_for(&server);
    config.timeouts.connect = std::time::Duration::from_secs(1);
    config.admin = Some(Admin { token: Some(token), ..Admin::at("0.0.0.0:0".parse().unwrap()) });
    let proxy = serve(&server, config);
    let mut operator = admin_address(&proxy);
    operator.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    let asked =
        |path: &str, headers: &str| ask_on(&mut TcpStream::connect(operator).unwrap(), "GET", path, headers).unwrap();
    let shown = format!("Authorization: Bearer {TOKEN}\r\n");
    let wrong = "Authorization: Bearer a token that nobody guesset\r\n";
    // As browsers show a password: any user's, base64 of `operator:` and the token.
    let basic = "Authorization: Basic b3BlcmF0b3I6YSB0b2tlbiB0aGF0IG5vYm9keSBndWVzc2Vz\r\n";
    for path in ["/metrics", "/status", "/status/schema", "/history", "/", "/help", "/nothing"] {
        for headers in ["", wrong, "Authorization: Basic eDp5\r\n", "Authorization: Bearer\r\n"] {
            let told = asked(path, headers);
            assert!(told.status == 401 && told.head.contains("www-authenticate: bearer"), "{path}: {told:?}");
            assert!(told.head.contains("www-authenticate: basic realm="), "a browser asks for it: {told:?}");
            assert!(!told.body.contains("keyfold_"), "{told:?}");
        }
        for shown in [&shown, basic] {
            assert_eq!(asked(path, shown).status, if path == "/nothing" { 404 } else { 200 }, "{path}");
        }
    }
    eventually("it is ready", || asked("/readyz", "").status == 200);
    server.kill();
    eventually("the server is away", || asked("/readyz", "").status == 503);
    let port = server.port().to_string();
    assert_eq!(asked("/readyz", "").body, "{\"ok\":false,\"reasons\":[{\"reason\":\"server_away\"}]}\n");
    assert!(!asked("/readyz", "").body.contains(&port) && asked("/readyz", &shown).body.contains("detail"));
    assert_eq!(asked("/livez", "").status, 200);

    std::fs::write(file.path(), "another token of enough bytes").unwrap();
    proxy.reloader().reload_admin_token().unwrap();
    assert_eq!(asked("/metrics", &shown).status, 401);
    assert_eq!(asked("/metrics", "Authorization: Bearer another token of enough bytes\r\n").status, 200);
}

/// Asks by TLS, with a certificate where `identity` is.
/// A page of somebody's, whose name leads to 127.0.0.1 by now, has the browser ask here; it learns nothing.
#[test]
fn who_asks_by_another_name_than_this_machines_is_told_nothing() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.admin = Some(admin(None));
    let proxy = serve(&server, config);
    let asked = |path: &str, host: &str| {
        let mut stream = TcpStream::connect(admin_address(&proxy)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n").unwrap();
        read_told(&mut stream).unwrap()
    };
    let at = admin_address(&proxy);
    for host in [format!("Host: {at}\r\n"), format!("Host: localhost:{}\r\n", at.port())] {
        ["/", "/metrics", "/status", "/history"].iter().for_each(|path| assert_eq!(asked(path, &host).status, 200));
    }
    for path in ["/", "/help", "/metrics", "/status", "/status/schema", "/history", "/nowhere"] {
        let told = asked(path, "Host: page.example:9379\r\n");
        assert!(
            told.status == 421 && told.body.contains("--admin-token-file"),
            "{path}: {} {}",
            told.status,
            told.body
        );
    }
    assert_eq!(asked("/livez", "Host: probe.example\r\n").status, 200);
}

fn ask_by_tls(proxy: &Handle, files: &Certificates, identity: bool) -> std::io::Result<Told> {
    ask_on(&mut tls_client(admin_address(proxy), files, identity), "GET", "/metrics", "")
}

#[test]
fn a_certificate_of_the_operators_authority_lets_in() {
    let server = start_server(&[]);
    let files = Certificates::of(&["localhost", "127.0.0.1"]).unwrap();
    let tls = ClientTls { cert: files.cert.clone(), key: files.key.clone(), client_ca: Some(files.ca.clone()) };
    let mut config = config_for(&server);
    config.admin = Some(Admin { tls: Some(tls), ..Admin::at("tls://127.0.0.1:0".parse().unwrap()) });
    let proxy = serve(&server, config);
    let told = ask_by_tls(&proxy, &files, true).unwrap();
    assert!(told.status == 200 && told.body.ends_with("# EOF\n"), "{}", told.head);
    assert!(ask_by_tls(&proxy, &files, false).is_err());
    assert!(proxy.reloader().has_certificates());
    proxy.reloader().reload_certificates().unwrap();
    assert_eq!(ask_by_tls(&proxy, &files, true).unwrap().status, 200);
}

#[test]
fn a_unix_socket_goes_with_the_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("admin.sock");
    let stage = stage_with(|config| {
        let listen = format!("unix:{}", path.display()).parse().unwrap();
        config.admin = Some(Admin { listen, ..admin(None) });
    });
    let told = ask_on(&mut UnixStream::connect(&path).unwrap(), "GET", "/livez", "").unwrap();
    assert_eq!(told.status, 200);
    drop(stage);
    assert!(!path.exists());
}

#[test]
fn without_it_there_is_none() {
    let stage = stage_with(|_| {});
    assert!(stage.proxy.admin_address().is_none());
    let with = stage_with(super::with_admin);
    assert_eq!(ask(&with.proxy, "/").status, 200);
}
