//! INCREX's floats. C's long doubles, their mantissa and their rounding belong to the server, so it is the server that reads,
//! adds and prints them, on the scratch key; here its numbers are only compared, as it prints them.
//!
//! What is asked, each line a value put on the scratch key and what is then added to it:
//!
//! ```text
//! 0        by                 whether `by` is a number
//! 0        bound      -old    the bound as it is printed, and what is applied where it is the new value
//! old      0                  the value as it is printed
//! old      by         -old    the new value, and what is applied
//! ```
//! A bound that isn't given is the greatest number of its type, and is asked for where it may become the value. Infinities,
//! which may be bounds and are no values, are told by their words.

use std::cmp::Ordering;

use super::Halt;
use super::space::{HelpRequest, Reply, SCRATCH};
use crate::number::compare_decimals;

/// The error of a lower bound above the upper one.
pub(super) const CROSSED_BOUNDS: &str = "ERR LBOUND can't be greater than UBOUND";

const NOT_A_FLOAT: &str = "ERR value is not a valid float";
const INFINITE: &str = "ERR increment would produce NaN or Infinity";

/// The greatest long double of 80 bits; the least is its opposite.
const GREATEST: &[u8] = b"1.18973149535723176502e+4932";

/// The bounds of a sum, as they are written.
pub(super) struct FloatBounds<'a> {
    pub(super) lower: Option<&'a [u8]>,
    pub(super) upper: Option<&'a [u8]>,
    /// A sum beyond a bound is replaced by it, not refused.
    pub(super) saturate: bool,
}

/// What a server made of it, printed.
pub(super) struct Counted {
    /// The value as it was.
    pub(super) old: Vec<u8>,
    /// The new value, and by how much it was changed; none where it is out of bounds.
    pub(super) new: Option<(Vec<u8>, Vec<u8>)>,
}

/// A number or an infinity, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Number {
    NegativeInfinity,
    /// Lower than all that are printed.
    Least,
    Printed(Vec<u8>),
    /// Higher than all that are printed.
    Greatest,
    Infinity,
}

impl Number {
    fn rank(&self) -> u8 {
        match self {
            Self::NegativeInfinity => 0,
            Self::Least => 1,
            Self::Printed(_) => 2,
            Self::Greatest => 3,
            Self::Infinity => 4,
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Printed(one), Self::Printed(other)) => compare_decimals(one, other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// The infinity that a word says.
fn infinity(word: &[u8]) -> Option<Number> {
    let (is_negative, word) = match word {
        [b'-', word @ ..] => (true, word),
        [b'+', word @ ..] | word => (false, word),
    };
    let is_infinity = word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity");
    is_infinity.then_some(if is_negative { Number::NegativeInfinity } else { Number::Infinity })
}

/// A number's opposite, as it is written. Of what is no number another that is none.
fn opposite(number: &[u8]) -> Vec<u8> {
    match number {
        [b'-', number @ ..] => number.to_vec(),
        [b'+', number @ ..] | number => [b"-", number].concat(),
    }
}

/// What the server is asked where a key holds `old`.
pub(super) fn ask(old: &[u8], by: &[u8], bounds: &FloatBounds<'_>) -> HelpRequest {
    let mut commands = Vec::new();
    let mut add = |start: &[u8], sums: &[&[u8]]| {
        commands.push(vec![b"SET".to_vec(), SCRATCH.to_vec(), start.to_vec()]);
        commands.extend(sums.iter().map(|sum| vec![b"INCRBYFLOAT".to_vec(), SCRATCH.to_vec(), sum.to_vec()]));
    };
    let minus_old = opposite(old);
    add(b"0", &[by]);
    for bound in bounds.asked().into_iter().flatten() {
        add(b"0", &[&bound, &minus_old]);
    }
    add(old, &[b"0"]);
    add(old, &[by, &minus_old]);
    commands.push(vec![b"DEL".to_vec(), SCRATCH.to_vec()]);
    HelpRequest { commands }
}

impl FloatBounds<'_> {
    /// The lower and the upper bound that the server is asked about; none of one that need not be printed.
    fn asked(&self) -> [Option<Vec<u8>>; 2] {
        let asked = |bound: Option<&[u8]>, otherwise: Vec<u8>| match bound {
            Some(bound) => infinity(bound).is_none().then(|| bound.to_vec()),
            None => self.saturate.then_some(otherwise),
        };
        [asked(self.lower, opposite(GREATEST)), asked(self.upper, GREATEST.to_vec())]
    }
}

/// A bound, and what the server said of it: the bound as it is printed, and what is applied up to it.
struct Bound {
    number: Number,
    printed: Option<(Vec<u8>, Sum)>,
}

impl Bound {
    fn read(bound: Option<&[u8]>, what: &str, otherwise: Number, replies: Option<[Sum; 2]>) -> Result<Self, Halt> {
        let Some([printed, applied]) = replies else {
            return Ok(Self { number: bound.and_then(infinity).unwrap_or(otherwise), printed: None });
        };
        let printed = printed.map_err(|_| Halt::Error(format!("ERR {what} is not a valid float")))?;
        let number = if bound.is_some() { Number::Printed(printed.clone()) } else { otherwise };
        Ok(Self { number, printed: Some((printed, applied)) })
    }

    /// The bound as the new value, and what is applied.
    fn into_value(self) -> Result<(Vec<u8>, Vec<u8>), Halt> {
        let infinite = || Halt::from("ERR applied increment would be Infinity");
        let (printed, applied) = self.printed.ok_or_else(infinite)?;
        Ok((printed, applied.map_err(|_| infinite())?))
    }
}

/// A sum as the server prints it.
type Sum = Result<Vec<u8>, NoSum>;

/// Why there is no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoSum {
    /// One of the two is no number.
    NotANumber,
    /// It is infinite.
    Infinite,
}

/// Reads the answers to [`ask`].
///
/// # Errors
/// What isn't a number, bounds that are crossed, or a change that is none.
pub(super) fn read(by: &[u8], bounds: &FloatBounds<'_>, replies: Vec<Reply>) -> Result<Counted, Halt> {
    let unexpected = || Halt::from("ERR keyfold: unexpected reply to INCRBYFLOAT");
    let mut sums = sums_of(replies)?.into_iter();
    let mut next = || sums.next().ok_or_else(unexpected);
    let increment = next()?;
    let [lower, upper] = bounds.asked();
    let lower = lower.map(|_| Ok::<_, Halt>([next()?, next()?])).transpose()?;
    let upper = upper.map(|_| Ok::<_, Halt>([next()?, next()?])).transpose()?;
    let (old, new, applied) = (next()?, next()?, next()?);
    if infinity(by).is_none() {
        increment.map_err(|_| "ERR Increment is not a valid float")?;
    }
    let lower = Bound::read(bounds.lower, "LBOUND", Number::Least, lower)?;
    let upper = Bound::read(bounds.upper, "UBOUND", Number::Greatest, upper)?;
    if lower.number.compare(&upper.number) == Ordering::Greater {
        return Err(CROSSED_BOUNDS.into());
    }
    let old = old.map_err(|_| NOT_A_FLOAT)?;
    let sum = match (&new, by) {
        (Ok(new), _) => Number::Printed(new.clone()),
        (Err(NoSum::NotANumber), _) => return Err(unexpected()),
        (Err(NoSum::Infinite), [b'-', ..]) => Number::NegativeInfinity,
        (Err(NoSum::Infinite), _) => Number::Infinity,
    };
    let passed = if sum == Number::NegativeInfinity || sum.compare(&lower.number) == Ordering::Less {
        Some(lower)
    } else if sum == Number::Infinity || sum.compare(&upper.number) == Ordering::Greater {
        Some(upper)
    } else {
        None
    };
    let new = match passed {
        None => Some((new.map_err(|_| unexpected())?, applied.map_err(|_| unexpected())?)),
        Some(bound) if bounds.saturate => Some(bound.into_value()?),
        Some(_) => None,
    };
    Ok(Counted { old, new })
}

/// The answers of INCRBYFLOAT, which are between those of SET.
///
/// # Errors
/// Those that aren't about numbers: the server is out of memory, or doesn't take writes.
fn sums_of(replies: Vec<Reply>) -> Result<Vec<Sum>, Halt> {
    let sums = replies.into_iter().filter_map(|reply| match reply {
        Reply::Bytes(bytes) if bytes != b"OK" => Some(Ok(Ok(bytes))),
        Reply::Error(error) if error == NOT_A_FLOAT => Some(Ok(Err(NoSum::NotANumber))),
        Reply::Error(error) if error == INFINITE => Some(Ok(Err(NoSum::Infinite))),
        Reply::Error(error) => Some(Err(Halt::Error(error))),
        Reply::Bytes(_) | Reply::Integer(_) | Reply::Nil | Reply::List(_) => None,
    });
    sums.collect()
}
