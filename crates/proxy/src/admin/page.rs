//! The page at `/`: one file that asks for `/status` and `/history` itself, and for nothing from anywhere else.
//!
//! Its parts lie beside this file: `page.html`, `page.css` and `page.js`, joined once. What a browser may do with it is
//! bounded by its policy: only this script and this style run, named by their hashes, it connects to this address alone,
//! nobody frames it, and text never becomes markup (Trusted Types), whatever namespaces are called.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::HeaderValue;
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Where the page's other parts go.
const STYLE_HERE: &str = "<style></style>";
const SCRIPT_HERE: &str = "<script></script>";

/// The page, joined.
pub(super) static PAGE: LazyLock<Page> = LazyLock::new(Page::new);

/// The page, and what a browser may do with it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) body: Bytes,
    /// The Content-Security-Policy.
    pub(super) policy: HeaderValue,
}

impl Page {
    fn new() -> Self {
        let body = HTML
            .replace(STYLE_HERE, &format!("<style>{STYLE}</style>"))
            .replace(SCRIPT_HERE, &format!("<script>{SCRIPT}</script>"));
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        // Hashes and words: nothing that a header could not hold.
        let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        Self { body: body.into(), policy }
    }
}

/// As a policy names what may run.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_joined_and_named_by_its_hash() {
        let text = str::from_utf8(&PAGE.body).unwrap();
        for (part, tag) in [(STYLE, "style"), (SCRIPT, "script")] {
            assert_eq!(text.matches(&format!("<{tag}>{part}</{tag}>")).count(), 1);
            assert_eq!(text.matches(&format!("<{tag}")).count(), 1, "there is no other");
            assert!(!part.contains("</") && !part.contains('\r'), "what a parser would end or change");
            assert!(PAGE.policy.to_str().unwrap().contains(&hash(part)));
        }
        assert!(PAGE.body.len() < 64 << 10, "{} bytes", PAGE.body.len());
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_no_text_becomes_markup() {
        let names = SCRIPT.replace("http://www.w3.org/2000/svg", "");
        for from in ["http:", "https:", "url(", "@import", "import(", "src="] {
            assert!(![HTML, STYLE, &names].iter().any(|part| part.contains(from)), "{from}");
        }
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setTimeout(\"",
            ".style.",
            "on=",
        ] {
            assert!(!SCRIPT.contains(way), "{way}");
        }
        assert!(!HTML.contains("style=") && !HTML.contains("onclick"), "the policy would keep it from working");
    }
}
