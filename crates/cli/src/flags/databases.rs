//! Which of a server's databases are meant.

use std::str::FromStr;

/// `all`, or one database's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Databases {
    All,
    One(u32),
}

impl Databases {
    pub(crate) fn contains(self, database: u32) -> bool {
        self == Self::All || self == Self::One(database)
    }
}

impl FromStr for Databases {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => number.parse().map(Self::One).map_err(|_| "write a database's number, or all".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_all() {
        assert_eq!("all".parse(), Ok(Databases::All));
        assert_eq!("3".parse(), Ok(Databases::One(3)));
        assert!("-1".parse::<Databases>().is_err() && "".parse::<Databases>().is_err());
        assert!(Databases::All.contains(7) && Databases::One(7).contains(7) && !Databases::One(7).contains(0));
    }
}
