//! The users of a proxy, as they stand now: read from a file, and changed while clients go on.
//!
//! Whoever asks gets the users of one moment. A change makes new ones beside them and puts them in their place at once,
//! so that none is seen half done; a session notices by the version, which a change counts up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use subtle::{Choice, ConstantTimeEq};

use super::log::DenialLog;
use super::parse::{self, SetUserError, UsersError};
use super::password::Digest;
use super::user::User;

/// The user of a connection that has not said who it is.
const DEFAULT: &str = "default";

/// Where users are kept, for ACL LOAD and ACL SAVE.
pub trait UsersFile: fmt::Debug + Send + Sync {
    /// Its whole text.
    ///
    /// # Errors
    /// Why it can't be read, for whoever asked.
    fn read(&self) -> Result<Vec<u8>, String>;

    /// Puts another text in its place, whole or not at all.
    ///
    /// # Errors
    /// Why it can't be written, for whoever asked.
    fn write(&self, text: &[u8]) -> Result<(), String>;

    /// Notes that users are as this text, which was read, says.
    fn note(&self, text: &[u8]);
}

type ByName = BTreeMap<String, Arc<User>>;

/// The users of a proxy.
#[derive(Debug)]
pub struct Users {
    now: RwLock<Arc<ByName>>,
    version: AtomicU64,
    /// In which version a name was nobody's last: who has it now is another.
    removed: RwLock<BTreeMap<String, u64>>,
    /// One change at a time.
    changing: Mutex<()>,
    file: Option<Box<dyn UsersFile>>,
    log: Mutex<DenialLog>,
    /// Others that let anyone in don't take their place.
    stays_guarded: AtomicBool,
}

/// Other users would let in anyone who can connect, and so don't take the place of those there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it lets anyone in without a password, and keyfold listens where other machines come in; give the user default a password, or start keyfold \
     with --allow-open"
)]
pub struct OpenToAll;

impl Users {
    /// Whoever connects is the user `default` and may do everything.
    pub fn open() -> Self {
        let mut user = User::new(DEFAULT);
        user.allow_all();
        user.set_nopass();
        Self::of([user])
    }

    /// Whoever knows the password is the user `default` and may do everything.
    pub fn with_password(password: &[u8]) -> Self {
        let mut user = User::new(DEFAULT);
        user.allow_all();
        user.add_password(Digest::of(password));
        Self::of([user])
    }

    /// Reads the lines of an ACL file: `user name rule rule …`, empty lines, and comments after a `#` at
    /// the start.
    ///
    /// # Errors
    /// Where a line does not read, a name comes twice, or there is no user at all.
    pub fn parse(text: &[u8]) -> Result<Self, UsersError> {
        parse::parse(text).map(Self::of)
    }

    /// The same users, which ACL LOAD reads from this file and ACL SAVE writes to it.
    #[must_use]
    pub fn kept_in(self, file: impl UsersFile + 'static) -> Self {
        Self { file: Some(Box::new(file)), ..self }
    }

    fn of(users: impl IntoIterator<Item = User>) -> Self {
        Self {
            now: RwLock::new(Arc::new(by_name(users))),
            version: AtomicU64::new(0),
            removed: RwLock::default(),
            changing: Mutex::default(),
            file: None,
            log: Mutex::default(),
            stays_guarded: AtomicBool::default(),
        }
    }

    /// From now on no others take their place that let anyone in.
    pub fn stay_guarded(&self) {
        self.stays_guarded.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> Arc<ByName> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often they were changed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.now().values().cloned().collect()
    }

    /// The user of this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.now().get(str::from_utf8(name).ok()?).cloned()
    }

    /// Whom a client is before it authenticates: the default user, where it is on and takes no password.
    /// None where clients must authenticate first.
    pub fn initial(&self) -> Option<Arc<User>> {
        self.find(DEFAULT.as_bytes()).filter(|user| user.is_on() && user.is_nopass())
    }

    /// Whether clients must authenticate before they can do anything.
    pub fn has_password(&self) -> bool {
        self.initial().is_none()
    }

    /// The user of this name, where the password is one of theirs and they are on.
    ///
    /// Every digest of every user is compared, whoever is asked for: how long it takes does not tell which
    /// users there are. Costs a SHA-256 of the password and a few nanoseconds a digest.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let digest = Digest::of(password);
        let mut found = None;
        let now = self.now();
        for user in now.values() {
            let named = user.name().as_bytes().ct_eq(name);
            let accepted = Choice::from(u8::from(user.is_on())) & user.accepts(&digest);
            if bool::from(named & accepted) {
                found = Some(user);
            }
        }
        found.cloned()
    }

    /// What was denied.
    pub(crate) fn log(&self) -> MutexGuard<'_, DenialLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes.
impl Users {
    /// Applies rules to a user, who is made where there is none: all of them, or none.
    ///
    /// # Errors
    /// The rule that doesn't read.
    pub(crate) fn set_user(&self, name: &str, rules: &[&[u8]]) -> Result<(), SetUserError> {
        let _changing = self.changing.lock();
        let mut user = self.find(name.as_bytes()).map_or_else(|| User::new(name), |user| (*user).clone());
        parse::apply_all(&mut user, rules)?;
        let mut users = (*self.now()).clone();
        users.insert(name.to_owned(), Arc::new(user));
        self.put(users);
        Ok(())
    }

    /// Removes users; how many there were.
    pub(crate) fn delete(&self, names: &[&[u8]]) -> usize {
        let _changing = self.changing.lock();
        let mut users = (*self.now()).clone();
        let before = users.len();
        users.retain(|name, _| !names.contains(&name.as_bytes()));
        let deleted = before - users.len();
        if deleted > 0 {
            self.put(users);
        }
        deleted
    }

    /// Gives the user `default` this password in place of all that it has, and leaves everything else as it is.
    pub fn replace_password(&self, password: &[u8]) {
        let _changing = self.changing.lock();
        let mut users = (*self.now()).clone();
        let mut user = users.get(DEFAULT).map_or_else(|| User::new(DEFAULT), |user| (**user).clone());
        user.reset_passwords();
        user.add_password(Digest::of(password));
        users.insert(DEFAULT.to_owned(), Arc::new(user));
        self.put(users);
    }

    /// Puts other users in their place. Clients of a user who is among both go on by the new rules.
    ///
    /// # Errors
    /// They let anyone in, where that is not meant to be. Nothing has changed then.
    pub fn replace_by(&self, other: &Self) -> Result<(), OpenToAll> {
        if self.stays_guarded.load(Ordering::Relaxed) && !other.has_password() {
            return Err(OpenToAll);
        }
        let _changing = self.changing.lock();
        self.put((*other.now()).clone());
        Ok(())
    }

    /// Reads the file again, for ACL LOAD; none where there is no file.
    ///
    /// # Errors
    /// What is wrong with it. Then nothing has changed.
    pub(crate) fn load(&self) -> Option<Result<(), String>> {
        let file = self.file.as_ref()?;
        let read = file.read().and_then(|text| {
            let other = Self::parse(&text).map_err(|error| error.to_string())?;
            self.replace_by(&other).map_err(|error| error.to_string())?;
            file.note(&text);
            Ok(())
        });
        Some(read)
    }

    /// Writes the file, for ACL SAVE; none where there is no file.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn save(&self, line: impl Fn(&User) -> Vec<u8>) -> Option<Result<(), String>> {
        let file = self.file.as_ref()?;
        let text: Vec<u8> = self.all().iter().flat_map(|user| [line(user), b"\n".to_vec()].concat()).collect();
        Some(file.write(&text))
    }

    /// Whether a user of this name was removed since that version, whoever is called so now.
    pub(crate) fn was_removed_since(&self, name: &str, version: u64) -> bool {
        let removed = self.removed.read().unwrap_or_else(PoisonError::into_inner);
        removed.get(name).is_some_and(|at| *at > version)
    }

    fn put(&self, users: ByName) {
        let next = self.version() + 1;
        let gone = self.now();
        let gone = gone.keys().filter(|name| !users.contains_key(*name)).map(|name| (name.clone(), next));
        self.removed.write().unwrap_or_else(PoisonError::into_inner).extend(gone);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

fn by_name(users: impl IntoIterator<Item = User>) -> ByName {
    users.into_iter().map(|user| (user.name().to_owned(), Arc::new(user))).collect()
}
