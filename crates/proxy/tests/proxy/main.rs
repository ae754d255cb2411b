//! The proxy before a real server.
//!
//! | module | what it asks |
//! | --- | --- |
//! | `both` | (a plain server and a keyfold, asked the same) |
//! | `bounded` | do commands on many keys go in short steps, and answer what they would in one? |
//! | `clients` | do clients see, end, hold and watch one another as those of a server do? |
//! | `cluster` | is a cluster one server to clients, whatever happens to its slots and nodes? |
//! | `collections` | does any client notice that small sets and hashes are values in buckets? |
//! | `damage` | what of values that no codec wrote? |
//! | `encoding` | are large values encoded beside the worker, and is it the same for everybody but those who wait no more? |
//! | `evicting` | is a cache kept within its memory, by the right keys, and is each key there with its value or absent? |
//! | `frozen` | what of connections, and of a server, that stand still or are busy? |
//! | `nearest` | do reads go to whichever node of a shard is nearest, and elsewhere once it is frozen? |
//! | `calls` | can anybody tell that writes that look at the old value are carried out by one call? |
//! | `joined` | can anybody tell that neighbours are read and written by one command? |
//! | `notifications` | do subscribers hear what happens to folded keys, by their names and once? |
//! | `half_way` | what of a slot whose source is lost while its keys are on their way? |
//! | `order` | do answers come in the order of the requests, however the bytes come? |
//! | `limits` | does nothing grow without bound, and does one client not harm another? |
//! | `large` | do large requests and answers hold up nobody else? |
//! | `info` | does INFO speak of clients and of logical keys? |
//! | `leaving` | what of clients that go halfway? |
//! | `loss` | what when the server goes? |
//! | `own_lane` | do blocking commands, transactions and subscriptions keep to their client? |
//! | `sentinel` | does it follow the primary that Sentinels name, whoever is away or wrong? |
//! | `replicas` | do reads go to replicas that are fit for it, nothing else, and is no key missed there? |
//! | `restart` | does a load notice that keyfolds take turns? |
//! | `takeover` | does one keyfold take over from another, and does somebody serve whatever goes wrong? |
//! | `operators` | is what operators are told right, do they harm nobody, and is nobody let in who shows nothing? |
//! | `silence` | does CLIENT REPLY keep its word whatever goes wrong? |
//! | `spills` | is a large value worked on where it lies, as the plain server would? |
//! | `stopping` | is every accepted request answered? |
//! | `sweeping` | does what has expired leave the server soon, and is no large bucket read at once? |
//! | `users` | does ACL act on the proxy's users as on a server's? |
//! | `tracking` | is a client that caches what it read told when that has changed? |
//! | `transport` | TLS and unix sockets, both ways |
//! | `words` | what of requests in hostile words? |
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
mod both;
mod bounded;
mod calls;
mod clients;
mod cluster;
mod collections;
mod contention;
mod damage;
mod encoding;
mod evicting;
mod folding;
mod frozen;
mod half_way;
mod info;
mod joined;
mod large;
mod leaving;
mod limits;
mod loss;
mod member_calls;
mod nearest;
mod notifications;
mod operators;
mod order;
mod other_types;
mod own_lane;
mod relay;
mod replicas;
mod restart;
mod sentinel;
mod service_manager;
mod silence;
mod slow;
mod spills;
mod stage;
mod stopping;
mod sweeping;
mod takeover;
mod talk;
mod tracking;
mod transport;
mod users;
mod vocabulary;
mod watched;
mod words;
