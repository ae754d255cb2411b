//! A native command that the server may refuse; then the logical command goes on another way.
//!
//! SETNX goes as HSETNX first where a codec writes, which refuses a field that is there though its value may have expired:
//! then it is worked out. INCR goes as HINCRBY, for which a frame is no integer: then a script counts.

use crate::exchange::outcome::Outcome;
use crate::exchange::{Effect, Env, FieldCall, FieldWrite, Io, ReplyKind, Step, UnderWay};
use crate::layout::Place;
use crate::resp::{Protocol, write_command};
use crate::string::Run;

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct NativeFirst {
    args: Vec<Vec<u8>>,
    place: Place,
    run: Run,
    protocol: Protocol,
    /// What to answer if the field was set; none if the server's reply is itself the answer.
    when_set: Option<&'static [u8]>,
}

impl NativeFirst {
    /// Sends HSETNX with a value as it is stored; it has one reply.
    pub(crate) fn set_if_absent(
        args: &[&[u8]],
        run: Run,
        place: &Place,
        stored: &[u8],
        when_set: &'static [u8],
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Self {
        write_command(wire, &[b"HSETNX", &place.physical, &place.field, stored]);
        Self { args: owned(args), place: place.clone(), run, protocol, when_set: Some(when_set) }
    }

    /// Sends HINCRBY; it has one reply.
    pub(crate) fn increment(
        args: &[&[u8]],
        run: Run,
        place: &Place,
        by: i64,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Self {
        write_command(wire, &[b"HINCRBY", &place.physical, &place.field, itoa::Buffer::new().format(by).as_bytes()]);
        Self { args: owned(args), place: place.clone(), run, protocol, when_set: None }
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Outcome {
        match self.when_set {
            Some(_) if reply == b":0\r\n" => return self.work_out(env, io),
            None if reply.starts_with(b"-ERR hash value is not an integer") => return self.count_by_script(env, io),
            Some(answer) if reply == b":1\r\n" => io.answer.extend_from_slice(answer),
            _ if reply.starts_with(b"-") || (self.when_set.is_none() && ReplyKind::Integer.fits(reply)) => {
                io.answer.extend_from_slice(reply);
            }
            _ => return Outcome::Ended(Step::Unexpected),
        }
        Outcome::Ended(Step::Done(Effect::None))
    }

    /// What is counted here expires: so may the next, and is asked of the script at once.
    fn count_by_script(&self, env: &Env<'_>, io: &mut Io<'_>) -> Outcome {
        env.stats.namespace(self.place.namespace).note_framed_counter();
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        let Some(call) = FieldCall::increment(&args) else { return self.work_out(env, io) };
        let write = FieldWrite::start(call, &args, self.run, &self.place, self.protocol, env, io.wire);
        Outcome::Refused(UnderWay::FieldWrite(Box::new(write)), 1)
    }

    fn work_out(&self, env: &Env<'_>, io: &mut Io<'_>) -> Outcome {
        Outcome::work_out(self.run, &self.args, &self.place, self.protocol, env, io.wire)
    }
}

fn owned(args: &[&[u8]]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.to_vec()).collect()
}
