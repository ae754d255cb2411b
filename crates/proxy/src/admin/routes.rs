//! What is answered to each request.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::accept;
use super::format::Format;
use super::health::{Health, liveness, readiness};
use super::history::Keeper;
use super::page::PAGE;
use super::sources::Sources;
use super::status::{schema, status};
use crate::address::ListenAddress;
use crate::token::AdminToken;

/// Metrics are gathered at most so often; whoever asks sooner is given the same once more. So however often they are asked
/// for, that takes a small part of one processor.
const FRESH: Duration = Duration::from_millis(100);

/// Samples are taken no closer than this.
const LEAST_BETWEEN: Duration = Duration::from_millis(10);

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// What is found where, for whoever comes to the wrong place.
const INDEX: &str = "\
keyfold, for operators
/               a page to watch, for browsers (docs/watching.md); this text for others
/help           this text
/metrics        OpenMetrics (docs/metrics.md)
/livez          whether it lives
/readyz         whether clients are to be sent to it, and why not
/status         what INFO keyfold says, as JSON
/status/schema  the schema of that
/history        how it went in the last hour, as JSON
";

/// Who is let in, beside those whom the listener keeps out.
#[derive(Debug)]
pub(crate) enum Entrance {
    /// Whoever shows the token.
    Token(AdminToken),
    /// Whoever asks for this machine by an address, or as `localhost`. By another name comes a browser, for a page of
    /// somebody's who has that name lead here.
    Local,
    /// Everybody.
    Open,
}

impl Entrance {
    /// That of an address that has perhaps a token.
    pub(crate) fn of(address: &ListenAddress, token: Option<AdminToken>) -> Self {
        match (token, address) {
            (Some(token), _) => Self::Token(token),
            (None, ListenAddress::Tcp(_)) => Self::Local,
            // Who may open the socket's file; who has a certificate, as else TLS wants a token beyond this machine.
            (None, ListenAddress::Unix(_) | ListenAddress::Tls(_)) => Self::Open,
        }
    }

    fn lets_in(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Token(token) => headers.get(AUTHORIZATION).is_some_and(|shown| token.is_shown(shown.as_bytes())),
            Self::Local => headers.get(HOST).is_none_or(|host| is_this_machine(host.as_bytes())),
            Self::Open => true,
        }
    }

    fn refusal(&self) -> Answer {
        match self {
            Self::Local => text(
                StatusCode::MISDIRECTED_REQUEST,
                TEXT,
                "without --admin-token-file only who asks for an address or localhost is answered, such as http://127.0.0.1:9379/\n",
            ),
            Self::Token(_) | Self::Open => unauthorized(),
        }
    }
}

/// Whether a Host is an address or `localhost`.
fn is_this_machine(host: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(host) else { return false };
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    address.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

/// What operators may ask.
#[derive(Debug)]
pub(crate) struct Routes {
    sources: Sources,
    entrance: Entrance,
    /// The metrics as they were gathered last, in each format.
    metrics: [Mutex<Option<(Instant, Bytes)>>; Format::ALL.len()],
    history: Mutex<Keeper>,
}

type Answer = Response<Full<Bytes>>;

impl Routes {
    /// For whoever is let in. The history begins now.
    pub(crate) fn new(sources: Sources, entrance: Entrance, sample_every: Duration) -> Arc<Self> {
        let history = Mutex::new(Keeper::new(sample_every, &sources.status()));
        Arc::new(Self { sources, entrance, metrics: Default::default(), history })
    }

    /// Takes samples for the history, for ever.
    pub(super) async fn keep_history(&self) {
        let mut ticks = tokio::time::interval(self.history().every().max(LEAST_BETWEEN));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first comes at once, when there is nothing to tell.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let status = status(&self.sources);
            self.history().take(&status, Instant::now());
        }
    }

    fn history(&self) -> MutexGuard<'_, Keeper> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request. Its body, where it has one, is nobody's concern.
    pub(super) fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered here\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let is_trusted = self.entrance.lets_in(headers);
        match path {
            // Whoever looks whether it lives has no token, mostly, and is told no more than that.
            "/livez" => health(liveness(&self.sources), is_trusted),
            "/readyz" => health(readiness(&self.sources), is_trusted),
            _ if !is_trusted => self.entrance.refusal(),
            "/metrics" => self.metrics(Format::wanted(headers)),
            "/status" => json(StatusCode::OK, &status(&self.sources)),
            "/status/schema" => json(StatusCode::OK, &schema()),
            "/history" => json(StatusCode::OK, &self.history().history()),
            "/" if wants_page(headers) => page(),
            "/" | "/help" => text(StatusCode::OK, TEXT, INDEX),
            _ => text(StatusCode::NOT_FOUND, TEXT, INDEX),
        }
    }

    fn metrics(&self, format: Format) -> Answer {
        let mut answer = match self.fresh(format) {
            Ok(body) => text(StatusCode::OK, format.content_type(), body),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        };
        answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        answer
    }

    fn fresh(&self, format: Format) -> Result<Bytes, fmt::Error> {
        let mut kept = self.metrics[format as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, body)) = &*kept
            && since.elapsed() < FRESH
        {
            return Ok(body.clone());
        }
        let body = format.expose(&self.sources)?;
        *kept = Some((Instant::now(), body.clone()));
        Ok(body)
    }
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // What a browser was let in for is not for the pages of others.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

/// Whether a browser asks, or whoever says that it can show pages.
fn wants_page(headers: &HeaderMap) -> bool {
    accept::quality(headers, HTML) > 0.0
}

fn page() -> Answer {
    let mut answer = text(StatusCode::OK, HTML, PAGE.body.clone());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, PAGE.policy.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    answer
}

fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    match serde_json::to_vec(body) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            text(status, JSON, bytes)
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    }
}

fn health(health: Health, is_trusted: bool) -> Answer {
    let status = if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &if is_trusted { health } else { health.without_details() })
}

fn unauthorized() -> Answer {
    let mut answer = text(
        StatusCode::UNAUTHORIZED,
        TEXT,
        "show the token of --admin-token-file: Authorization: Bearer …, or as a password\n",
    );
    // Programs take the first; browsers know the second alone, and ask their user.
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"keyfold\""));
    let basic =
        HeaderValue::from_static("Basic realm=\"keyfold: any user, and the token as password\", charset=\"UTF-8\"");
    answer.headers_mut().append(WWW_AUTHENTICATE, basic);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_surely_this_machine() {
        for host in ["127.0.0.1", "127.0.0.1:9379", "[::1]:9379", "[::1]", "192.0.2.7", "localhost", "LocalHost:80"] {
            assert!(is_this_machine(host.as_bytes()), "{host}");
        }
        for host in
            ["example.com", "127.0.0.1.example.com:9379", "localhost.example.com", "", "127.0.0.1 x", "::1", "0x7f.1"]
        {
            assert!(!is_this_machine(host.as_bytes()), "{host}");
        }
    }
}
