//! Questions sent ahead of their answers, on a connection that nobody else can use meanwhile.
//!
//! While a [`Pipelined`] is there it borrows its server, so that no other question can be asked; it counts the replies
//! that it waits for. When it goes, whichever way, by an error or a walk that has seen enough, the replies that are
//! still to come are read and dropped. Where they can't be read the connection is given up for good. So the next
//! question never gets the answer to an earlier one.

use redis::Value;

use super::Server;

impl Server {
    /// For questions that are asked before earlier ones are answered.
    pub(crate) fn pipelined(&mut self) -> Pipelined<'_> {
        Pipelined::new(self)
    }
}

/// Questions under way on a server's connection.
pub(crate) struct Pipelined<'s> {
    server: &'s mut Server,
    outstanding: u64,
}

impl<'s> Pipelined<'s> {
    fn new(server: &'s mut Server) -> Self {
        Self { server, outstanding: 0 }
    }

    /// Sends commands that are written already, and that will have so many replies.
    pub(crate) fn send(&mut self, commands: &[u8], replies: u64) -> anyhow::Result<()> {
        if replies == 0 {
            return Ok(());
        }
        self.outstanding += replies;
        self.server.put(commands)
    }

    /// The next reply, an error of the server included.
    pub(crate) fn receive(&mut self) -> anyhow::Result<Value> {
        anyhow::ensure!(self.outstanding > 0, "no reply is to come from the server at {}", self.server.address());
        let reply = self.server.take()?;
        self.outstanding -= 1;
        Ok(reply)
    }

    /// What is known of the server, while questions are under way.
    pub(crate) fn server(&self) -> &Server {
        self.server
    }

    /// The server for other questions: what is under way is read and dropped first.
    pub(crate) fn idle_server(&mut self) -> &mut Server {
        self.drain();
        self.server
    }

    /// A connection that fails here is given up by the server itself, and tells so at the next question.
    fn drain(&mut self) {
        while self.outstanding > 0 && self.server.take().is_ok() {
            self.outstanding -= 1;
        }
        self.outstanding = 0;
    }
}

impl Drop for Pipelined<'_> {
    fn drop(&mut self) {
        self.drain();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use keyfold_core::resp::write_command;
    use keyfold_proxy::config::ServerTls;

    use super::*;
    use crate::server::Target;

    fn echo(words: &[&[u8]]) -> Vec<u8> {
        let mut wire = Vec::new();
        words.iter().for_each(|word| write_command(&mut wire, &[b"ECHO", word]));
        wire
    }

    fn connect(url: &str) -> Server {
        Server::connect(&Target { address: url.parse().unwrap(), tls: ServerTls::default() }).unwrap()
    }

    #[test]
    fn replies_that_nobody_read_never_answer_a_later_question() {
        let running = keyfold_testkit::found()[0].start(&[]).unwrap();
        let mut server = connect(&running.url());
        let mut pipelined = server.pipelined();
        pipelined.send(&echo(&[b"a", b"b", b"c"]), 3).unwrap();
        assert_eq!(pipelined.receive().unwrap(), Value::BulkString(b"a".to_vec()));
        assert_eq!(pipelined.idle_server().ask::<String>(redis::cmd("ECHO").arg("d")).unwrap(), "d");
        pipelined.send(&echo(&[b"e", b"f"]), 2).unwrap();
        assert_eq!(pipelined.receive().unwrap(), Value::BulkString(b"e".to_vec()));
        drop(pipelined);
        assert_eq!(server.ask::<String>(redis::cmd("ECHO").arg("g")).unwrap(), "g");
        assert!(server.pipelined().receive().is_err());
    }

    /// A server that answers PING by something that is no reply, with a reply behind it.
    #[test]
    fn a_connection_that_broke_off_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fake = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let info = "redis_version:7.0.15\r\n";
            let info = format!("${}\r\n{info}\r\n", info.len());
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = stream.read(&mut chunk) {
                let is_ping = chunk[..len].ends_with(b"PING\r\n");
                for _ in chunk[..len].iter().filter(|byte| **byte == b'*') {
                    let reply = if is_ping { "?\r\n+LATE\r\n" } else { &info };
                    stream.write_all(reply.as_bytes()).unwrap();
                }
            }
        });
        let mut server = connect(&format!("redis://127.0.0.1:{port}"));
        assert!(server.ask::<String>(&redis::cmd("PING")).is_err());
        let late = server.ask::<String>(&redis::cmd("PING"));
        assert!(late.is_err(), "{late:?}");
        drop(server);
        fake.join().unwrap();
    }
}
