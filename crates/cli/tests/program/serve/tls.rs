//! Sentinels, the servers that they watch, and nodes of a cluster that speak TLS and nothing else.

use std::path::Path;
use std::time::Duration;

use keyfold_testkit::cluster::{self, Cluster, Failover};
use keyfold_testkit::patience::wait_for;
use keyfold_testkit::sentinel::{self, Sentinels};
use keyfold_testkit::servers::{Binary, each, newest_and_others};
use keyfold_testkit::{Certificates, Wire};

use super::keyfold::{COUNTERS, Keyfold, run, write_layout};

const BY_SLOT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";

/// How long a failover may take to come through to clients, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The newest servers, as far as they speak TLS.
fn binaries() -> Vec<Binary> {
    let (speak, others): (Vec<_>, Vec<_>) = newest_and_others().0.into_iter().partition(Binary::speaks_tls);
    others.iter().for_each(|binary| eprintln!("{} is left out: it was built without TLS", binary.name()));
    speak
}

/// A way to servers, by the word of one authority.
struct Way<'a> {
    url: &'a str,
    ca: &'a Path,
}

impl Way<'_> {
    fn serve(&self, args: &[&str]) -> Keyfold {
        Keyfold::serve(&[&["--upstream", self.url, "--upstream-ca", self.ca.to_str().unwrap()], args].concat())
    }

    /// Runs a tool, which must end so; what it prints.
    fn runs(&self, args: &[&str], codes: &[i32]) -> String {
        let (code, out, err) = run(&[args, &["--upstream-ca", self.ca.to_str().unwrap()]].concat());
        assert!(code.is_some_and(|code| codes.contains(&code)), "{args:?}: {code:?} {out}{err}");
        out
    }

    /// The tools see what was written through keyfold.
    fn is_seen_by_tools(&self, value: &str) {
        let place = self.runs(&["where", "user:7", "--upstream", self.url], &[0]);
        assert!(place.contains(value), "{place}");
        let analysis = self.runs(&["analyze", self.url], &[0]);
        assert!(analysis.contains("plain:{id:int}"), "{analysis}");
        // It may find what is to be mended.
        let report = self.runs(&["doctor", self.url], &[0, 3]);
        assert!(report.contains("looked at") && !report.contains("can't be asked"), "{report}");
        self.runs(&["verify", self.url], &[0]);
    }
}

/// Writes them, as soon as all of them can be.
fn write_keys(keyfold: &Keyfold, value: &str) {
    let mut wire = keyfold.connect();
    wait_for("all keys to be written", PATIENCE, || {
        for id in 0..100 {
            let key = format!("{}:{id}", if id % 2 == 0 { "plain" } else { "user" });
            let reply = wire.call(&[b"SET", key.as_bytes(), value.as_bytes()]).map_err(|error| error.to_string())?;
            if reply != b"+OK\r\n" {
                return Err(String::from_utf8_lossy(&reply).into_owned());
            }
        }
        Ok(())
    })
    .unwrap();
}

/// Another authority's word is not taken, and who is to name it is told.
fn refuses_strangers(url: &str) {
    let stranger = Certificates::of(&["localhost", "127.0.0.1"]).unwrap();
    let (code, _, err) = run(&["layout", "show", url, "--upstream-ca", stranger.ca.to_str().unwrap()]);
    assert!(code == Some(1) && err.contains("invalid peer certificate"), "{err}");
}

fn sentinels_with(binary: &Binary, options: &sentinel::Options) -> (Sentinels, String) {
    let sentinels = Sentinels::start_with(binary, 3, options).unwrap();
    // One is named; the others are found.
    let first = format!("{}:{}", options.host, sentinels.addresses()[0].port());
    (sentinels, first)
}

fn info(keyfold: &Keyfold) -> String {
    let reply = keyfold.connect().ask(&[b"INFO", b"keyfold"]).unwrap();
    String::from_utf8_lossy(reply.bytes().unwrap()).into_owned()
}

/// Serves, fails over, and is asked by the tools before and after; how many other Sentinels it found.
fn follows_sentinels(sentinels: &Sentinels, way: &Way<'_>, others: usize) {
    let dir = tempfile::tempdir().unwrap();
    let layout = write_layout(dir.path(), COUNTERS);
    let keyfold = way.serve(&["--layout", layout.to_str().unwrap()]);
    write_keys(&keyfold, "before");
    way.is_seen_by_tools("before");
    wait_for("the other Sentinels to be found", PATIENCE, || {
        let said = info(&keyfold);
        let found = said.lines().find_map(|line| line.strip_prefix("keyfold_sentinels_found:")).unwrap_or_default();
        let count = found.split(',').filter(|address| !address.is_empty()).count();
        if count == others { Ok(()) } else { Err(said) }
    })
    .unwrap();
    let successor = sentinels.fail_over().unwrap();
    write_keys(&keyfold, "after");
    way.is_seen_by_tools("after");
    let plain = sentinels.connect_server(successor).unwrap().call(&[b"EXISTS", b"user:7"]).unwrap();
    assert_eq!(plain, b":0\r\n", "it is folded at the one that follows");
    refuses_strangers(way.url);
}

#[test]
fn sentinels_and_their_servers_speak_tls() {
    each(&binaries(), |binary| {
        let certificates = Certificates::of(&["127.0.0.1"]).unwrap();
        let user = "user watcher on >see%this resetchannels &+promoted-slave &+switch-master -@all +subscribe \
                    +sentinel|get-master-addr-by-name +sentinel|master +sentinel|sentinels";
        let options = sentinel::Options {
            replicas: 1,
            password: Some("secret".to_owned()),
            sentinel_password: Some("main".to_owned()),
            tls: Some(certificates.clone()),
            lines: vec![user.to_owned()],
            ..sentinel::Options::default()
        };
        let (sentinels, first) = sentinels_with(binary, &options);
        let login = "sentinel_username=watcher&sentinel_password=see%25this";
        let url = format!("sentinels://default:secret@{first}/main?{login}");
        follows_sentinels(&sentinels, &Way { url: &url, ca: &certificates.ca }, 2);
    });
}

#[test]
fn sentinels_in_the_clear_name_servers_that_speak_tls() {
    each(&binaries(), |binary| {
        let certificates = Certificates::of(&["127.0.0.1"]).unwrap();
        let tls = Some(certificates.clone());
        let options = sentinel::Options { replicas: 1, tls, clear_sentinels: true, ..sentinel::Options::default() };
        let (sentinels, first) = sentinels_with(binary, &options);
        let url = format!("rediss+sentinel://{first}/main?sentinel_tls=no");
        follows_sentinels(&sentinels, &Way { url: &url, ca: &certificates.ca }, 2);
    });
}

#[test]
fn sentinels_name_servers_by_the_name_in_their_certificate() {
    each(&binaries(), |binary| {
        let certificates = Certificates::of(&["localhost"]).unwrap();
        let lines = ["resolve-hostnames yes", "announce-hostnames yes", "announce-ip localhost"];
        let options = sentinel::Options {
            replicas: 1,
            host: "localhost",
            tls: Some(certificates.clone()),
            args: ["--replica-announce-ip", "localhost"].map(str::to_owned).to_vec(),
            lines: lines.map(|line| format!("sentinel {line}")).to_vec(),
            ..sentinel::Options::default()
        };
        let (sentinels, first) = sentinels_with(binary, &options);
        let url = format!("sentinels://{first}/main");
        follows_sentinels(&sentinels, &Way { url: &url, ca: &certificates.ca }, 2);
    });
}

/// Serves while a slot moves and a primary changes places with its replica, and is asked by the tools.
fn follows_cluster(cluster: &Cluster, way: &Way<'_>) {
    let dir = tempfile::tempdir().unwrap();
    let layout = write_layout(dir.path(), BY_SLOT);
    let keyfold = way.serve(&["--layout", layout.to_str().unwrap(), "--read-from", "replica"]);
    write_keys(&keyfold, "before");
    way.is_seen_by_tools("before");
    let slot = cluster::slot_of(b"user:7");
    let owner = cluster.owner(slot).unwrap();
    let other = cluster.primaries().unwrap().into_iter().find(|node| *node != owner).unwrap();
    cluster.reshard(slot, other).unwrap();
    assert_eq!(keyfold.connect().call(&[b"GET", b"user:7"]).unwrap(), b"$6\r\nbefore\r\n");
    let replica = cluster.replicas_of(other).unwrap()[0];
    cluster.fail_over(replica, Failover::Clean).unwrap();
    write_keys(&keyfold, "after");
    way.is_seen_by_tools("after");
    wait_for("replicas to be read from", PATIENCE, || {
        let mut wire: Wire = keyfold.connect();
        (0..100).for_each(|id| _ = wire.call(&[b"GET", format!("user:{id}").as_bytes()]));
        let said = info(&keyfold);
        let is_read = |line: &str| line.contains(",reads=") && !line.contains(",reads=0,");
        if said.lines().any(is_read) { Ok(()) } else { Err(said) }
    })
    .unwrap();
    refuses_strangers(way.url);
}

#[test]
fn a_cluster_speaks_tls_alone() {
    each(&binaries(), |binary| {
        let certificates = Certificates::of(&["127.0.0.1"]).unwrap();
        let options = cluster::Options {
            tls: Some(certificates.clone()),
            password: Some("secret".to_owned()),
            ..cluster::Options::default()
        };
        let cluster = Cluster::start(binary, 2, 1, &options).unwrap();
        let url = format!("clusters://:secret@{},{}", cluster.node(3).address(), cluster.node(0).address());
        follows_cluster(&cluster, &Way { url: &url, ca: &certificates.ca });
    });
}

/// Their certificate holds for the name alone. One has no slots: only CLUSTER NODES names it, by its address first.
#[test]
fn a_cluster_is_found_by_the_name_in_its_certificate() {
    each(&binaries(), |binary| {
        let certificates = Certificates::of(&["localhost"]).unwrap();
        let options = cluster::Options {
            tls: Some(certificates.clone()),
            hostnames: vec!["localhost".to_owned(); 5],
            endpoint: "hostname",
            ..cluster::Options::default()
        };
        let mut cluster = Cluster::start(binary, 2, 1, &options).unwrap();
        cluster.add(&[]).unwrap();
        let url = format!("rediss://localhost:{}", cluster.node(1).address().port());
        follows_cluster(&cluster, &Way { url: &url, ca: &certificates.ca });
    });
}
