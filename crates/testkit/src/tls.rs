//! Certificates for servers and proxies that speak TLS, and what a server is told to speak nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::servers::Binary;

/// An authority, and one certificate of its with the key, in files that go with the last copy of this.
#[derive(Clone, Debug)]
pub struct Certificates {
    _dir: Arc<TempDir>,
    /// The authority's own certificate.
    pub ca: PathBuf,
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Certificates {
    /// A certificate for these names and addresses, and no others.
    ///
    /// # Errors
    /// No directory to be had, or one of them is no name.
    #[cfg(feature = "tls")]
    pub fn of(names: &[&str]) -> Result<Self, Box<dyn std::error::Error>> {
        use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

        let dir = tempfile::Builder::new().prefix("keyfold-").tempdir()?;
        let write = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).map(|()| path)
        };
        let mut authority = CertificateParams::new(vec![])?;
        // A name of its own: a certificate named like its issuer would pass for one that signed itself.
        authority.distinguished_name.push(DnType::CommonName, "authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate()?;
        let ca = write("ca.pem", authority.self_signed(&ca_key)?.pem())?;
        let issuer = Issuer::new(authority, ca_key);
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let cert = write("cert.pem", CertificateParams::new(names)?.signed_by(&key, &issuer)?.pem())?;
        let key = write("key.pem", key.serialize_pem())?;
        Ok(Self { _dir: Arc::new(dir), ca, cert, key })
    }

    /// A certificate that is its own authority, as `openssl req -x509` makes it: it may sign others.
    ///
    /// # Errors
    /// No directory to be had, or one of them is no name.
    #[cfg(feature = "tls")]
    pub fn of_own_authority(names: &[&str]) -> Result<Self, Box<dyn std::error::Error>> {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

        let dir = tempfile::Builder::new().prefix("keyfold-").tempdir()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let signing_key = KeyPair::generate()?;
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert, params.self_signed(&signing_key)?.pem())?;
        std::fs::write(&key, signing_key.serialize_pem())?;
        Ok(Self { _dir: Arc::new(dir), ca: cert.clone(), cert, key })
    }

    /// The settings of a server, or a Sentinel, that shows this certificate, takes clients without one, and speaks TLS to
    /// those that it follows or watches.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        vec![
            ("tls-ca-cert-file", path(&self.ca)),
            ("tls-cert-file", path(&self.cert)),
            ("tls-key-file", path(&self.key)),
            ("tls-auth-clients", "no".to_owned()),
            ("tls-replication", "yes".to_owned()),
        ]
    }

    /// The arguments of a server that takes clients by TLS alone, at this port.
    pub fn server_args(&self, port: u16) -> Vec<String> {
        let ports = [("port", "0".to_owned()), ("tls-port", port.to_string())];
        self.settings().into_iter().chain(ports).flat_map(|(name, value)| [format!("--{name}"), value]).collect()
    }
}

impl Binary {
    /// Whether it was built with TLS. Where it was not, it knows none of the settings.
    pub fn speaks_tls(&self) -> bool {
        // No number, so that it ends at once either way.
        let output = Command::new(self.path()).args(["--tls-port", "none"]).output();
        output.is_ok_and(|output| {
            let said = [output.stdout, output.stderr].concat();
            !String::from_utf8_lossy(&said).contains("Bad directive")
        })
    }
}
