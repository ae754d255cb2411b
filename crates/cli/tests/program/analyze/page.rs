//! The report as a page: by its text, and in a real browser where there is one.

use std::path::Path;
use std::process::Command;

use keyfold_testkit::found;
use tempfile::TempDir;

use super::{fill_mixed, run};

/// What a browser makes of the page, after its layout; none where there is no browser.
fn in_browser(page: &Path, width: u32) -> Option<String> {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success()))?;
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_page_stands_by_itself() {
    let server = found()[0].start(&[]).unwrap();
    fill_mixed(&server);
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("report.html");
    let (code, stdout, stderr) = run(&[&server.url(), "--html", path.to_str().unwrap(), "--usd-per-gb-month", "10"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("report: ") && stdout.contains("USD a month"), "{stdout}");
    let html = std::fs::read_to_string(&path).unwrap();
    for loads in ["<script", "<link", "src=", "url(", "@import"] {
        assert!(!html.contains(loads), "the page loads something: {loads}");
    }
    assert_eq!(html.matches("<svg ").count() % 2, 0);
    assert!(html.contains("<svg ") && html.contains("user:{id:int}:logins") && html.contains("entries in a bucket"));
    for width in [1200, 380] {
        let Some(dom) = in_browser(&path, width) else {
            eprintln!("skipped: no browser");
            return;
        };
        assert_eq!(dom.matches("<svg ").count(), html.matches("<svg ").count());
        assert!(dom.contains("</main></body></html>"), "the browser closed something early");
    }
}
