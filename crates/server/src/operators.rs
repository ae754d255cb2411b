//! Questions to a keyfold's own address for operators (`--admin`), by HTTP: a connection for each, which is over with its
//! answer.

use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use keyfold_proxy::config::ServerTls;
use keyfold_proxy::tls;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// For one question, from the connection to the end of its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// An answer of more bytes is none of a keyfold's.
const MOST_BYTES: usize = 16 << 20;

/// Where operators come in: `http://127.0.0.1:9379`, `https://…`, `http+unix:///run/keyfold-admin.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorsAddress {
    /// A host and a port.
    Tcp {
        /// A name or an IP.
        host: String,
        /// The port.
        port: u16,
        /// Whether it speaks TLS.
        tls: bool,
    },
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl FromStr for OperatorsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("{text}: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "the token is no part of the URL, where others see it: name its file by --token-file".to_owned()
            );
        }
        let tls = match url.scheme() {
            "http+unix" => return Ok(Self::Unix(PathBuf::from(url.path()))),
            "http" => false,
            "https" => true,
            other => {
                return Err(format!(
                    "{other}:// is no operators' address: write http://host:port or https://host:port"
                ));
            }
        };
        let host = match url.host() {
            Some(Host::Ipv6(ip)) => ip.to_string(),
            Some(host) => host.to_string(),
            None => return Err(format!("{text} names no host")),
        };
        let port = url.port_or_known_default().ok_or("it names no port")?;
        Ok(Self::Tcp { host, port, tls })
    }
}

impl fmt::Display for OperatorsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "http+unix://{}", path.display()),
            Self::Tcp { host, port, tls } => {
                let scheme = if *tls { "https" } else { "http" };
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}")
                } else {
                    write!(f, "{scheme}://{host}:{port}")
                }
            }
        }
    }
}

/// Asks at one address.
#[derive(Debug)]
pub struct Operators {
    address: OperatorsAddress,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
    runtime: tokio::runtime::Runtime,
}

impl Operators {
    /// Asks at this address, and shows this token where there is one. Nothing is connected yet.
    ///
    /// # Errors
    /// Certificates that can't be used, a token that can't be sent.
    pub fn new(address: OperatorsAddress, tls: &ServerTls, token: Option<&str>) -> anyhow::Result<Self> {
        let speaks_tls = matches!(address, OperatorsAddress::Tcp { tls: true, .. });
        let tls = if speaks_tls { Some(tls::server_side(tls).map_err(|error| anyhow!("{error}"))?) } else { None };
        let shown = |token: &str| {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).context("the token holds what no header can")?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        };
        let authorization = token.map(shown).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { address, tls, authorization, runtime })
    }

    /// Where it asks.
    pub fn address(&self) -> &OperatorsAddress {
        &self.address
    }

    /// What is answered to a path, where that is 200.
    ///
    /// # Errors
    /// Nothing answers in time, or something else.
    pub fn get(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let asked = self.runtime.block_on(async {
            match tokio::time::timeout(ANSWER_WITHIN, self.ask(path)).await {
                Ok(asked) => asked,
                Err(_) => bail!("nothing answered within {} s; is the address right?", ANSWER_WITHIN.as_secs()),
            }
        });
        asked.with_context(|| format!("can't ask {} for {path}", self.address))
    }

    async fn ask(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let (host, port) = match &self.address {
            OperatorsAddress::Unix(file) => {
                return self.ask_on(UnixStream::connect(file).await?, "keyfold".to_owned(), path).await;
            }
            OperatorsAddress::Tcp { host, port, .. } => (host.as_str(), *port),
        };
        let stream = TcpStream::connect((host, port)).await?;
        let named = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        match &self.tls {
            None => self.ask_on(stream, named, path).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
                self.ask_on(stream, named, path).await
            }
        }
    }

    async fn ask_on<S>(&self, stream: S, host: String, path: &str) -> anyhow::Result<Vec<u8>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::get(path).header(HOST, host).header(ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let asking = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
            let body = body.map_err(|error| anyhow!("{error}"))?.to_bytes().to_vec();
            match status {
                StatusCode::OK => Ok(body),
                StatusCode::UNAUTHORIZED if self.authorization.is_some() => bail!("it takes another token"),
                StatusCode::UNAUTHORIZED => bail!("it wants a token: name its file by --token-file"),
                status => bail!("it answers {status}: is that a keyfold's --admin address?"),
            }
        };
        let (mut connection, mut asking) = (pin!(connection), pin!(asking));
        tokio::select! {
            told = &mut asking => told,
            ended = &mut connection => {
                ended?;
                asking.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_is_a_url_without_secrets() {
        for url in
            ["http://127.0.0.1:9379", "https://cache.internal:9379", "http://[::1]:9379", "http+unix:///run/k.sock"]
        {
            assert_eq!(url.parse::<OperatorsAddress>().unwrap().to_string(), url);
        }
        assert_eq!("http://a/status".parse::<OperatorsAddress>().unwrap().to_string(), "http://a:80");
        for wrong in ["redis://a:1", "http://", "a:1", "", "http://x:secret@a:1", "http://a:99999"] {
            let refused = wrong.parse::<OperatorsAddress>().unwrap_err();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    /// What a server makes of it that answers so.
    fn answered(answer: &'static [u8]) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            let len = stream.read(&mut asked).unwrap();
            stream.write_all(answer).unwrap();
            String::from_utf8(asked[..len].to_vec()).unwrap()
        });
        let operators = Operators::new(url.parse().unwrap(), &ServerTls::default(), Some("a token")).unwrap();
        let told = operators.get("/status").map_err(|error| format!("{error:#}"));
        let asked = fake.join().unwrap().to_ascii_lowercase();
        assert!(
            asked.starts_with("get /status http/1.1\r\n") && asked.contains("authorization: bearer a token\r\n"),
            "{asked}"
        );
        assert!(!format!("{operators:?}").contains("a token"));
        told
    }

    #[test]
    fn what_is_no_answer_of_a_keyfold_is_said() {
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap(), b"{}");
        for (answer, why) in [
            (&b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"[..], "another token"),
            (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", "302"),
            (b"-ERR unknown command\r\n", "can't ask"),
            (b"", "can't ask"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "can't ask"),
        ] {
            let refused = answered(answer).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
