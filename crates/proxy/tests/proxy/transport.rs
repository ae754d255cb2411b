//! TLS and unix sockets, both ways.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyfold_proxy::config::ClientTls;
use keyfold_proxy::{Handle, StartError, start};
use keyfold_testkit::{Certificates, Server, Wire};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::stage::{address, call, commands, config_for, start_server};

fn certificates() -> Certificates {
    Certificates::of(&["localhost", "127.0.0.1"]).unwrap()
}

/// A TLS client of this address; with a certificate of its own where `identity` is.
pub(crate) fn tls_client(
    at: SocketAddr,
    files: &Certificates,
    identity: bool,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.ca).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if identity {
        let cert = CertificateDer::from_pem_file(&files.cert).unwrap();
        builder.with_client_auth_cert(vec![cert], PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(at).unwrap())
}

fn tls_proxy(server: &Server, files: &Certificates, client_ca: Option<PathBuf>) -> Handle {
    let mut config = config_for(server);
    config.listen = vec!["tls://127.0.0.1:0".parse().unwrap()];
    config.client_tls = Some(ClientTls { cert: files.cert.clone(), key: files.key.clone(), client_ca });
    start(config).unwrap()
}

#[test]
fn clients_by_tls() {
    let (server, files) = (start_server(&[]), certificates());
    let proxy = tls_proxy(&server, &files, None);
    let mut client = tls_client(address(&proxy), &files, false);
    let large = "x".repeat(300_000);
    client.write_all(&commands(&[&format!("SET a {large}"), "GET a", "QUIT"])).unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    assert_eq!(answers, format!("+OK\r\n$300000\r\n{large}\r\n+OK\r\n").as_bytes());
}

#[test]
fn clients_with_certificates_of_their_own() {
    let (server, files) = (start_server(&[]), certificates());
    let proxy = tls_proxy(&server, &files, Some(files.ca.clone()));
    let mut known = tls_client(address(&proxy), &files, true);
    known.write_all(&commands(&["PING"])).unwrap();
    let mut answer = [0; 7];
    known.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    let mut stranger = tls_client(address(&proxy), &files, false);
    let refused = stranger.write_all(&commands(&["PING"])).and_then(|()| stranger.read_exact(&mut answer));
    assert!(refused.is_err());
}

/// A server that speaks TLS and asks for certificates, and its port.
fn tls_server(files: &Certificates) -> (Server, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (path(&files.ca), path(&files.cert), path(&files.key));
    let tls_port = port.to_string();
    let args = ["--tls-port", &tls_port, "--tls-ca-cert-file", &ca, "--tls-cert-file", &cert, "--tls-key-file", &key];
    (start_server(&args), port)
}

#[test]
fn the_server_by_tls() {
    let files = certificates();
    let (server, port) = tls_server(&files);
    let mut config = config_for(&server);
    config.upstream = format!("rediss://localhost:{port}").parse().unwrap();
    config.server_tls.ca = Some(files.ca.clone());
    config.server_tls.identity = Some((files.cert.clone(), files.key.clone()));
    let proxy = start(config.clone()).unwrap();
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    let large = "x".repeat(300_000);
    wire.send_bytes(&commands(&[&format!("SET a {large}"), "GET a"])).unwrap();
    assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    assert_eq!(wire.reply().unwrap().len(), 300_011);

    // Another authority's word is not taken, unless any is.
    let others = certificates();
    config.server_tls.ca = Some(others.ca.clone());
    let proxy = start(config.clone()).unwrap();
    let error = call(&mut Wire::connect(address(&proxy)).unwrap(), "GET a");
    assert!(error.contains("TLS: invalid peer certificate"), "{error}");
    config.server_tls.insecure = true;
    let proxy = start(config).unwrap();
    assert_eq!(call(&mut Wire::connect(address(&proxy)).unwrap(), "STRLEN a"), ":300000\r\n");
}

#[test]
fn a_server_that_shows_its_own_authority_is_told_what_to_show() {
    let files = Certificates::of_own_authority(&["localhost"]).unwrap();
    let (server, port) = tls_server(&files);
    let mut config = config_for(&server);
    config.upstream = format!("rediss://localhost:{port}").parse().unwrap();
    config.server_tls.ca = Some(files.ca.clone());
    let proxy = start(config).unwrap();
    let error = call(&mut Wire::connect(address(&proxy)).unwrap(), "GET a");
    assert!(error.contains("TLS: invalid peer certificate: it is an authority's own (CA:TRUE)"), "{error}");
    assert!(error.contains("-addext basicConstraints=critical,CA:FALSE"), "{error}");
}

#[test]
fn unix_sockets_both_ways() {
    let server = start_server(&[]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keyfold.sock");
    let mut config = config_for(&server);
    config.listen = vec![format!("unix://{}", path.display()).parse().unwrap()];
    config.upstream = format!("unix://{}?db=2", server.unix_socket().display()).parse().unwrap();
    let proxy = start(config.clone()).unwrap();
    let mut wire = Wire::connect_unix(&path).unwrap();
    assert_eq!(call(&mut wire, "SET a 1"), "+OK\r\n");
    let mut direct = server.connect().unwrap();
    call(&mut direct, "SELECT 2");
    assert_eq!(call(&mut direct, "GET a"), "$1\r\n1\r\n");

    // A socket in use is left alone; one that nobody answers is replaced.
    assert!(matches!(start(config.clone()), Err(StartError::Bind { .. })));
    drop(proxy);
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let _proxy = start(config).unwrap();
    assert_eq!(call(&mut Wire::connect_unix(&path).unwrap(), "GET a"), "$1\r\n1\r\n");
}

/// Whether a new client that trusts these certificates' authority alone is served.
fn serves(proxy: &Handle, files: &Certificates) -> bool {
    let mut client = tls_client(address(proxy), files, false);
    let mut answer = [0; 7];
    let asked = client.write_all(&commands(&["PING"])).and_then(|()| client.read_exact(&mut answer));
    asked.is_ok_and(|()| &answer == b"+PONG\r\n")
}

#[test]
fn certificates_are_read_again_and_no_connection_is_dropped() {
    let (server, shown, other) = (start_server(&[]), certificates(), certificates());
    let proxy = tls_proxy(&server, &shown, None);
    let mut before = tls_client(address(&proxy), &shown, false);
    before.write_all(&commands(&["SET a b"])).unwrap();
    let mut answer = [0; 5];
    before.read_exact(&mut answer).unwrap();
    assert!(serves(&proxy, &shown) && !serves(&proxy, &other));

    // A broken file changes nothing.
    std::fs::write(&shown.cert, "no certificate").unwrap();
    assert!(proxy.reloader().reload_certificates().is_err());
    assert!(serves(&proxy, &shown));

    std::fs::copy(&other.cert, &shown.cert).unwrap();
    std::fs::copy(&other.key, &shown.key).unwrap();
    proxy.reloader().reload_certificates().unwrap();
    assert!(serves(&proxy, &other) && !serves(&proxy, &shown));
    before.write_all(&commands(&["SET a c"])).unwrap();
    before.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
}

/// TLS has a buffer of its own between an answer and the socket.
#[test]
fn all_of_an_answer_reaches_a_client_by_tls_that_reads_late() {
    let (server, files) = (start_server(&[]), certificates());
    let proxy = tls_proxy(&server, &files, None);
    let mut client = tls_client(address(&proxy), &files, false);
    client.sock.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    for step in 0..24 {
        let len = 4_000_000 + step * 16_000;
        let mut answer = vec![0; 5];
        client.write_all(&commands(&[&format!("SET a {}", "x".repeat(len))])).unwrap();
        client.read_exact(&mut answer).unwrap();
        client.write_all(&commands(&["GET a"])).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        answer.resize(format!("${len}\r\n\r\n").len() + len, 0);
        client.read_exact(&mut answer).unwrap_or_else(|why| panic!("{len} bytes: {why}"));
        assert!(answer.ends_with(b"x\r\n"));
    }
}
