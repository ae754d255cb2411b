//! Values of keys that a walk has seen, read once more: here from a server, by GET, SMEMBERS and HGETALL.

use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_server::keyspace::Database;
use keyfold_server::pace::Pace;
use keyfold_server::reply::read_if;
use keyfold_server::{Commands, Nodes};
use keyfold_survey::population::SampledKey;

/// Keys asked about at a time.
const BATCH: usize = 500;
/// Values asked for at a time, in bytes, as long as they were when they were seen.
const BATCH_BYTES: u64 = 1 << 20;

/// A key whose value is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'k> {
    pub(crate) database: u32,
    pub(crate) key: &'k [u8],
    /// About how long its value is.
    pub(crate) len: u64,
}

impl<'k> Wanted<'k> {
    pub(crate) fn of(sampled: &'k SampledKey) -> Self {
        Self { database: sampled.database, key: &sampled.key, len: sampled.value.len() }
    }
}

/// Reads values of keys that a walk has seen.
pub(crate) trait Values {
    /// Which keys will be asked for: whoever reads all of them in one go does so now.
    fn expect(&mut self, keys: Vec<Wanted<'_>>) -> anyhow::Result<()>;

    /// How many commands were sent for them.
    fn commands(&self) -> u64;

    /// The values of these keys in their order: of strings, or of such collections, packed. None where the key is gone, is of another
    /// type by now, or may not be read.
    fn read(&mut self, keys: &[Wanted<'_>], collection: Option<CollectionKind>)
    -> anyhow::Result<Vec<Option<Vec<u8>>>>;
}

/// Reads them from servers, at the walk's pace.
pub(crate) struct ServerValues {
    nodes: Nodes,
    databases: Vec<Vec<Database>>,
    pace: Pace,
}

impl ServerValues {
    /// Over connections of its own. Reading leaves LRU and LFU as they are where servers can do that.
    pub(crate) fn new(mut nodes: Nodes, databases: Vec<Vec<Database>>, pace: Pace) -> Self {
        for server in nodes.servers() {
            let _ = server.leave_untouched();
        }
        Self { nodes, databases, pace }
    }

    fn read_batch(
        &mut self,
        node: usize,
        indices: &[usize],
        keys: &[Wanted<'_>],
        collection: Option<CollectionKind>,
        values: &mut [Option<Vec<u8>>],
    ) -> anyhow::Result<()> {
        let mut commands = Commands::default();
        let command: &[u8] = match collection {
            None => b"GET",
            Some(CollectionKind::Set) => b"SMEMBERS",
            Some(CollectionKind::Hash) => b"HGETALL",
        };
        indices.iter().for_each(|index| commands.push(&[command, keys[*index].key]));
        self.pace.spend(commands.len() as u64);
        for (index, answer) in indices.iter().zip(self.nodes.servers()[node].ask_all(&commands)?) {
            values[*index] = match collection {
                None => read_if(&answer),
                Some(kind) => packed(kind, read_if(&answer).unwrap_or_default()),
            };
        }
        Ok(())
    }
}

impl Values for ServerValues {
    fn expect(&mut self, _keys: Vec<Wanted<'_>>) -> anyhow::Result<()> {
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.pace.spent()
    }

    fn read(
        &mut self,
        keys: &[Wanted<'_>],
        collection: Option<CollectionKind>,
    ) -> anyhow::Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        for node in 0..self.databases.len() {
            let of_node: Vec<usize> = (0..keys.len()).filter(|at| self.nodes.owner_of(keys[*at].key) == node).collect();
            for at in 0..self.databases[node].len() {
                let number = self.databases[node][at].number;
                let there: Vec<usize> =
                    of_node.iter().copied().filter(|index| keys[*index].database == number).collect();
                if there.is_empty() {
                    continue;
                }
                self.nodes.servers()[node].select(number)?;
                let mut rest = there.as_slice();
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(batch(rest, keys));
                    self.read_batch(node, now, keys, collection, &mut values)?;
                    rest = later;
                }
            }
        }
        Ok(values)
    }
}

/// The packed form of these members, or of fields and values one after the other; an empty one is gone.
pub(crate) fn packed(kind: CollectionKind, texts: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let collection = Collection::of_texts(kind, texts);
    (!collection.is_empty()).then(|| collection.packed())
}

/// How many of the keys go at once: one at the least.
fn batch(indices: &[usize], keys: &[Wanted<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |index: &&usize| {
        bytes += keys[**index].len;
        bytes <= BATCH_BYTES
    };
    indices.iter().take(BATCH).take_while(fits).count().max(1)
}
