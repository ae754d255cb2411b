//! What operators ask, and are told.
//!
//! | module | what it asks |
//! | --- | --- |
//! | `counts` | are metrics right to the last digit, and readable to others? |
//! | `health` | does it say whether clients are to be sent to it, and why not? |
//! | `moves` | does it say how far a move has come, and where it stopped? |
//! | `bounds` | does nobody who asks slowly, much or wrongly harm clients or other operators? |
//! | `caches` | is what leaves a cache told, and is it the same everywhere? |
//! | `access` | is nobody let in who shows nothing? |
//! | `page` | is the page one that asks nobody else, and is what it is drawn from right to the last digit? |

mod access;
mod bounds;
mod caches;
mod counts;
mod health;
mod moves;
mod page;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::config::{Admin, Config};
use keyfold_proxy::{AdminToken, Handle};

/// What was answered.
#[derive(Debug)]
struct Told {
    status: u16,
    head: String,
    body: String,
}

/// Operators come in on a free port of this machine.
fn admin(token: Option<AdminToken>) -> Admin {
    Admin { token, ..Admin::at("127.0.0.1:0".parse().unwrap()) }
}

fn with_admin(config: &mut Config) {
    config.admin = Some(admin(None));
}

fn admin_address(proxy: &Handle) -> SocketAddr {
    match proxy.admin_address() {
        Some(ListenAddress::Tcp(address) | ListenAddress::Tls(address)) => *address,
        other => panic!("{other:?}"),
    }
}

/// Asks on a stream of bytes, which is closed after it.
fn ask_on(stream: &mut (impl Read + Write), method: &str, path: &str, headers: &str) -> std::io::Result<Told> {
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")?;
    read_told(stream)
}

fn read_told(stream: &mut impl Read) -> std::io::Result<Told> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
    Ok(Told { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

fn ask(proxy: &Handle, path: &str) -> Told {
    ask_for(proxy, path, "")
}

/// Asks with more headers, each with its end of line.
fn ask_for(proxy: &Handle, path: &str, headers: &str) -> Told {
    let mut stream = TcpStream::connect(admin_address(proxy)).unwrap();
    ask_on(&mut stream, "GET", path, headers).unwrap()
}
