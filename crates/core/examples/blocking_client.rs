//! A client of a folded server, without a proxy: the core drives a blocking socket of the standard library.
//!
//! ```text
//! cargo run -p keyfold-core --example blocking_client -- 127.0.0.1:6379
//! ```
//! Before it: `keyfold layout push`, or `keyfold fold`, of a layout with `user:{id:int}` in it. This is what a binding
//! for another language is made of: the conversations are the core's, the socket and the clock its own.
#![expect(clippy::disallowed_methods, reason = "sockets, the clock and randomness are the driver's, not the core's")]

use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use keyfold_core::codec::Kinds;
use keyfold_core::drive::{Context, Conversations, Opened, Opening, Outside, Pipe};
use keyfold_core::placement::Secrets;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6379".to_owned());
    let commands = ["SET user:1 ada", "GET user:1", "SET user:2 41", "INCR user:2", "SCAN 0 MATCH user:* COUNT 1000"];
    for (command, answer) in commands.iter().zip(run(&address, &commands)?) {
        println!("{command}\n  {}", answer.escape_ascii());
    }
    Ok(())
}

/// Carries out commands one after the other; their answers, as the server itself would give them.
pub(crate) fn run(address: &str, commands: &[&str]) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    let Opened { layout, server, now_ms } = open(&mut stream)?;
    let conversations = Conversations::new(Context::new(&layout, server));
    let mut client = Client { stream, conversations, opened: (Instant::now(), now_ms), inbox: Vec::new() };
    commands.iter().map(|command| client.command(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>())).collect()
}

/// Names the connection, and reads what is in force.
fn open(stream: &mut TcpStream) -> Result<Opened, Box<dyn Error>> {
    let mut wire = Vec::new();
    let (mut opening, mut replies) = Opening::start(&mut wire);
    loop {
        stream.write_all(&std::mem::take(&mut wire))?;
        let replies = read_replies(stream, std::mem::replace(&mut replies, 1))?;
        if let Some(opened) = opening.handle_replies(&replies, &Secrets::default(), &Kinds::default(), &mut wire)? {
            return Ok(opened);
        }
    }
}

/// Reads so many replies.
fn read_replies(stream: &mut TcpStream, count: usize) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let (mut pipe, mut inbox, mut replies) = (Pipe::<()>::default(), Vec::new(), Vec::new());
    while replies.len() < count {
        match pipe.scan(&inbox)? {
            Some(len) => replies.push(inbox.drain(..len).collect()),
            None => receive(stream, &mut inbox)?,
        }
    }
    Ok(replies)
}

fn receive(stream: &mut TcpStream, inbox: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {
    let mut chunk = [0; 4096];
    let len = stream.read(&mut chunk)?;
    if len == 0 {
        return Err("the server has closed the connection: open another, and look which layout is in force".into());
    }
    inbox.extend_from_slice(&chunk[..len]);
    Ok(())
}

struct Client<'l> {
    stream: TcpStream,
    conversations: Conversations<'l, ()>,
    /// When the server's time was asked, and what it was.
    opened: (Instant, i64),
    inbox: Vec<u8>,
}

impl Client<'_> {
    fn command(&mut self, args: &[&[u8]]) -> Result<Vec<u8>, Box<dyn Error>> {
        let now_ms = self.opened.1 + i64::try_from(self.opened.0.elapsed().as_millis())?;
        let outside = &mut Outside { now_ms, nonces: &mut || RandomState::new().build_hasher().finish() };
        self.conversations.begin(args, (), outside)?;
        loop {
            if let Some(((), answer)) = self.conversations.poll_answer() {
                return Ok(answer);
            }
            self.stream.write_all(&std::mem::take(self.conversations.wire()))?;
            receive(&mut self.stream, &mut self.inbox)?;
            let used = self.conversations.handle_bytes(&self.inbox, outside)?;
            self.inbox.drain(..used);
        }
    }
}
