//! What a run of the lab is told: which server, how large, and where the results go.

use std::path::PathBuf;

use keyfold_server::Target;

/// Studies on a server.
pub struct Run {
    /// This one; all where there is none.
    pub study: Option<String>,
    /// Where it runs.
    pub ground: GroundConfig,
    /// How large it is, and on what data.
    pub options: Options,
    /// Where the results go.
    pub out: PathBuf,
}

/// Which server, and what may be done there.
pub struct GroundConfig {
    /// The server.
    pub place: GroundPlace,
    /// Before every key's name, on a server that isn't empty; none where such a one is refused.
    pub prefix: Option<Vec<u8>>,
    /// Whether the user has said so.
    pub i_know: bool,
}

/// Where the server under study is.
pub enum GroundPlace {
    /// A server of keyfold's own; this program where one is named.
    Embedded(Option<PathBuf>),
    /// One that runs already.
    At(Target),
}

/// What a study may be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large it is.
    pub scale: Scale,
    /// Which random data.
    pub seed: u64,
    /// What a GiB costs a month.
    pub price_usd: f64,
    /// Requests for caches, instead of made-up ones.
    pub trace: Option<PathBuf>,
    /// Records for the caches that keyfold keeps, instead of made-up objects.
    pub records: Option<PathBuf>,
}

/// How large a study is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Soon over.
    Quick,
    /// So many times the usual size.
    Times(f64),
    /// As large as the original, whatever it takes.
    Full,
}

impl Options {
    /// A number of things by the scale: so many in a quick run, so many usually, so many in the original.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of keys: positive, below 2^53")]
    pub fn sized(&self, quick: u64, usual: u64, original: u64) -> u64 {
        match self.scale {
            Scale::Quick => quick,
            Scale::Times(times) => ((usual as f64 * times).round() as u64).max(1),
            Scale::Full => original,
        }
    }

    /// Whether it is to be over soon.
    pub fn is_quick(&self) -> bool {
        self.scale == Scale::Quick
    }
}
