//! TLS by rustls with ring: what listeners show, and how the server is checked.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use crate::config::{ClientTls, ServerTls};

/// Certificates that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read, or holds no such thing.
    #[error("can't read {what} from {path}: {source}")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: pem::Error,
    },
    /// A file of certificates is empty.
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    /// A certificate and its key don't match, or are of no use.
    #[error("TLS can't use the certificate: {0}")]
    Unusable(#[from] rustls::Error),
    /// The authority for clients is of no use.
    #[error("TLS can't use the clients' authority: {0}")]
    ClientAuthority(#[from] VerifierBuilderError),
    /// The system trusts no one.
    #[error("the system has no trusted authorities ({0}); name one with --upstream-ca")]
    NoRoots(String),
}

/// What TLS goes by. It may be replaced; a connection goes by what there was when it began.
#[derive(Debug)]
pub(crate) struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    pub(crate) fn new(config: Arc<T>) -> Arc<Self> {
        Arc::new(Self(RwLock::new(config)))
    }

    pub(crate) fn now(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, next: Arc<T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

/// How TLS clients are greeted.
pub(crate) fn client_side(tls: &ClientTls) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(read_roots(path)?);
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?)
        }
    };
    let config = builder.with_single_cert(read_certs(&tls.cert)?, read_key(&tls.key)?)?;
    Ok(Arc::new(config))
}

/// How a TLS server is greeted.
///
/// # Errors
/// Certificates that can't be used.
pub fn server_side(tls: &ServerTls) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = if tls.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
    } else {
        let roots = match &tls.ca {
            Some(path) => read_roots(path)?,
            None => system_roots()?,
        };
        builder.with_root_certificates(roots)
    };
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => builder.with_client_auth_cert(read_certs(cert)?, read_key(key)?)?,
    };
    Ok(Arc::new(config))
}

/// What is wrong with the server's certificate and what to do, where TLS's own words say it to nobody: what
/// `openssl req -x509` makes by itself is an authority's, whatever the server is named in it.
pub fn meaning(said: &str) -> Option<&'static str> {
    said.contains("CaUsedAsEndEntity").then_some(
        "invalid peer certificate: it is an authority's own (CA:TRUE), which is to sign those of servers and is none \
         itself; let the server show one that it has signed, or make it anew with \
         `openssl req -x509 … -addext basicConstraints=critical,CA:FALSE`",
    )
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(TlsError::NoRoots(reasons.join("; ")));
    }
    Ok(roots)
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for cert in read_certs(path)? {
        roots.add(cert)?;
    }
    Ok(roots)
}

fn read_certs(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |source| TlsError::Pem { what: "certificates", path: path.to_owned(), source };
    let certs: Vec<_> = CertificateDer::pem_file_iter(path).map_err(error)?.collect::<Result<_, _>>().map_err(error)?;
    if certs.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(certs) }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Pem {
        what: "a private key",
        path: path.to_owned(),
        source,
    })
}

/// Takes any certificate, as `--upstream-insecure` asks. Signatures are still checked: the other end does
/// hold the key of the certificate it shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
