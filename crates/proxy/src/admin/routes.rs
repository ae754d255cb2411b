//! What is answered to each request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;

use super::exposition::{self, OPENMETRICS};
use super::health::{Health, liveness, readiness};
use super::sources::Sources;
use super::status::{schema, status};
use crate::token::AdminToken;

/// Metrics are gathered at most so often; whoever asks sooner is given the same once more. So however often they are asked
/// for, that takes a small part of one processor.
const FRESH: Duration = Duration::from_millis(100);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// What is found where, for whoever comes to the wrong place.
const INDEX: &str = "\
keyfold, for operators
/metrics        OpenMetrics (docs/metrics.md)
/livez          whether it lives
/readyz         whether clients are to be sent to it, and why not
/status         what INFO keyfold says, as JSON
/status/schema  the schema of that
";

/// What operators may ask.
#[derive(Debug)]
pub(crate) struct Routes {
    sources: Sources,
    token: Option<AdminToken>,
    /// The metrics as they were gathered last.
    metrics: Mutex<Option<(Instant, Bytes)>>,
}

type Answer = Response<Full<Bytes>>;

impl Routes {
    pub(crate) fn new(sources: Sources, token: Option<AdminToken>) -> Arc<Self> {
        Arc::new(Self { sources, token, metrics: Mutex::default() })
    }

    /// Answers a request. Its body, where it has one, is nobody's concern.
    pub(super) fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered here\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let is_trusted = self
            .token
            .as_ref()
            .is_none_or(|token| headers.get(AUTHORIZATION).is_some_and(|shown| token.is_shown(shown.as_bytes())));
        match path {
            // Whoever looks whether it lives has no token, mostly, and is told no more than that.
            "/livez" => health(liveness(&self.sources), is_trusted),
            "/readyz" => health(readiness(&self.sources), is_trusted),
            _ if !is_trusted => unauthorized(),
            "/metrics" => self.metrics(),
            "/status" => json(StatusCode::OK, &status(&self.sources)),
            "/status/schema" => json(StatusCode::OK, &schema()),
            "/" => text(StatusCode::OK, TEXT, INDEX),
            _ => text(StatusCode::NOT_FOUND, TEXT, INDEX),
        }
    }

    fn metrics(&self) -> Answer {
        let mut kept = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, body)) = &*kept
            && since.elapsed() < FRESH
        {
            return text(StatusCode::OK, OPENMETRICS, body.clone());
        }
        match exposition::expose(&self.sources) {
            Ok(body) => {
                let body = Bytes::from(body);
                *kept = Some((Instant::now(), body.clone()));
                text(StatusCode::OK, OPENMETRICS, body)
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        }
    }
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
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
    let mut answer =
        text(StatusCode::UNAUTHORIZED, TEXT, "show the token of --admin-token-file: Authorization: Bearer …\n");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}
