//! Users and groups: the resolvers, the cache with its timeouts, the publication of the lookup map.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry, Reply};

use self::flights::Flights;
use self::notices::Notices;
use self::publication::Publication;
use crate::administration::{CacheRecord, MapStatus, ResolverStatus};
use crate::service::clock::{Clock, SystemClock, UnixSeconds};
use crate::settings::{self, ResolverKind, Settings};
use crate::store::{Cache, CacheError, Cached, Changes, Times};

mod files;
mod flights;
mod format;
mod local;
mod lookup;
mod notices;
mod publication;
mod refresh;
mod resolver;
mod rules;
mod stamp;
pub mod users_file;

pub use files::FilesResolver;
pub use local::{LocalFiles, LocalFilesError, LocalNames};
pub use resolver::{Listing, Resolver, ResolverError};
pub use rules::Rules;

/// Whose account a login name is, as far as this daemon may know without asking NSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// root or a uid below the first ordinary one: never asked of a server.
    System,
    /// An ordinary user of /etc/passwd.
    Local {
        /// User id.
        uid: u32,
    },
    /// A user of one of our resolvers.
    Resolver {
        /// User id.
        uid: u32,
    },
    /// Neither file nor resolver knows the name.
    Unknown,
}

/// What authentication asks the directory.
pub trait Accounts: Send + Sync {
    /// Whose account `name` is; /etc/passwd owns a name before a resolver does.
    ///
    /// # Errors
    /// A sentence: the files or the cache cannot be read, and no resolver answered.
    fn account(&self, name: &str) -> Result<Account, String>;
}

/// Why the directory did not do it. `Display` is a sentence for the journal.
#[derive(Debug)]
pub enum DirectoryError {
    /// cache.db cannot be opened or written; try again when the disk has room and the directory its owner.
    Cache(String),
    /// A resolver could not be read; what is cached stays as it is.
    Resolver(String),
    /// /etc/passwd or /etc/group cannot be read; nobody's account can be told.
    LocalFiles(LocalFilesError),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(sentence) | Self::Resolver(sentence) => f.write_str(sentence),
            Self::LocalFiles(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DirectoryError {}

/// Users and groups of the configured resolvers. Any number of threads may ask it at a time.
pub struct Directory {
    settings: settings::Cache,
    resolvers: Vec<Box<dyn Resolver>>,
    local: LocalFiles,
    cache: Cache,
    map_directory: PathBuf,
    clock: Box<dyn Clock>,
    /// Told when [`Directory::refresh_due`] becomes earlier.
    wake: Box<dyn Fn() + Send + Sync>,
    notices: Notices,
    flights: Flights,
    /// In the order of `resolvers`.
    states: Mutex<Vec<ResolverState>>,
    /// What changed in the cache and is not in the map yet.
    touched: Mutex<Changes>,
    /// Held for a whole refresh; locked before anything else.
    publication: Mutex<Publication>,
    last_refresh: AtomicU64,
    is_urgent: AtomicBool,
    seen_generation: AtomicU64,
}

/// How the last whole listing of a resolver went.
#[derive(Default)]
struct ResolverState {
    /// Its version, the rules it was judged by and the generation of the cache it went into; none: it must be read
    /// again in any case.
    read: Option<(String, Rules, u64)>,
    /// What was refused.
    refused: Vec<String>,
    /// What went wrong.
    problem: Option<String>,
}

impl Directory {
    /// Opens the cache; asks no resolver and publishes nothing yet (the first [`Self::refresh`] does, and a `--once`
    /// never calls it).
    ///
    /// # Errors
    /// [`DirectoryError::Cache`].
    pub fn open(
        settings: &Settings,
        cache_database: &Path,
        map_directory: &Path,
        local: LocalFiles,
    ) -> Result<Self, DirectoryError> {
        let resolvers = settings.resolvers.0.iter().map(|resolver| -> Box<dyn Resolver> {
            let settings::Resolver { name, kind: ResolverKind::Files { passwd, group } } = resolver.clone();
            Box::new(FilesResolver::new(name, passwd, group))
        });
        Self::with_resolvers(&settings.cache, resolvers.collect(), cache_database, map_directory, local)
    }

    /// [`Self::open`] with other resolvers than the settings name.
    ///
    /// # Errors
    /// [`DirectoryError::Cache`].
    pub fn with_resolvers(
        settings: &settings::Cache,
        resolvers: Vec<Box<dyn Resolver>>,
        cache_database: &Path,
        map_directory: &Path,
        local: LocalFiles,
    ) -> Result<Self, DirectoryError> {
        let failed = |error: CacheError| DirectoryError::Cache(error.to_string());
        let cache = Cache::open(cache_database).map_err(failed)?;
        let names: Vec<&str> = resolvers.iter().map(|resolver| resolver.name()).collect();
        cache.keep_resolvers(&names).map_err(failed)?;
        let states = resolvers.iter().map(|_| ResolverState::default()).collect();
        Ok(Self {
            settings: settings.clone(),
            local,
            map_directory: map_directory.to_owned(),
            clock: Box::new(SystemClock),
            wake: Box::new(|| ()),
            notices: Notices::default(),
            flights: Flights::default(),
            states: Mutex::new(states),
            touched: Mutex::default(),
            publication: Mutex::new(Publication::new(map_directory, settings.clone())),
            last_refresh: AtomicU64::new(0),
            is_urgent: AtomicBool::new(false),
            seen_generation: AtomicU64::new(cache.generation()),
            cache,
            resolvers,
        })
    }

    /// Takes the time for [`Accounts::account`] from another clock than the host's.
    #[must_use]
    pub fn with_clock(mut self, clock: Box<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Whom to tell that [`Self::refresh_due`] has become earlier: a lookup learnt what the map does not know.
    #[must_use]
    pub fn with_waker(mut self, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        self.wake = wake;
        self
    }

    /// What is cached, by kind and name.
    ///
    /// # Errors
    /// [`DirectoryError::Cache`].
    pub fn list(&self) -> Result<Vec<CacheRecord>, DirectoryError> {
        self.records().map_err(|error| self.cache_failed(&error))
    }

    /// How the resolvers and the map are.
    #[must_use]
    pub fn status(&self) -> (Vec<ResolverStatus>, MapStatus) {
        let listings = self.cache.listings().unwrap_or_default();
        let states = lock(&self.states);
        let resolvers = self.resolvers.iter().zip(states.iter()).map(|(resolver, state)| {
            let (counts, cache_problem) = match self.cache.counts(resolver.name()) {
                Ok(counts) => (counts, None),
                Err(error) => ((0, 0), Some(error.to_string())),
            };
            ResolverStatus {
                name: resolver.name().to_owned(),
                kind: resolver.kind().to_owned(),
                users: counts.0,
                groups: counts.1,
                refused: state.refused.clone(),
                refreshed: listings
                    .iter()
                    .find(|(name, _)| name == resolver.name())
                    .map(|(_, times)| times.fetched),
                problem: state.problem.clone().or(cache_problem),
            }
        });
        (resolvers.collect(), publication::status(&self.map_directory))
    }

    /// Lines for the journal since the last call, each said once when it becomes true. Write them after `open`, each
    /// `refresh` and each `flush`.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    fn records(&self) -> Result<Vec<CacheRecord>, CacheError> {
        let mut records = Vec::new();
        let cache = &self.cache;
        publication::pages(
            |after| cache.groups_after(after, LIST_PAGE),
            |group: &GroupEntry| &group.name,
            |group| {
                let expires = group.expires();
                let Cached { entry: GroupEntry { name, gid, .. }, resolver, .. } = group;
                records.push(CacheRecord {
                    kind: "group".to_owned(),
                    name,
                    id: Some(gid),
                    resolver,
                    expires,
                });
            },
        )?;
        publication::pages(
            |after| cache.users_after(after, LIST_PAGE),
            |user: &PasswdEntry| &user.name,
            |user| {
                let expires = user.expires();
                let Cached { entry: PasswdEntry { name, uid, .. }, resolver, .. } = user;
                records.push(CacheRecord { kind: "user".to_owned(), name, id: Some(uid), resolver, expires });
            },
        )?;
        let absent = cache.all_absent()?.into_iter().map(|absent| CacheRecord {
            id: absent.key.parse().ok().filter(|_| absent.kind.ends_with("id")),
            kind: format!("absent-{}", absent.kind),
            name: absent.key,
            resolver: String::new(),
            expires: absent.times.expires,
        });
        Ok(absent.chain(records).collect())
    }

    fn rules(&self) -> Result<Rules, LocalFilesError> {
        let names = self.local.names();
        let problem = names.as_ref().err().map(ToString::to_string);
        self.notices.state("the host's own users", problem.as_deref());
        names.map(|names| Rules::new(self.settings.first_id, names))
    }

    fn times(&self, now: UnixSeconds) -> Times {
        Times { fetched: now, expires: now.saturating_add(self.settings.timeout.as_secs()) }
    }

    fn negative_times(&self, now: UnixSeconds) -> Times {
        Times { fetched: now, expires: now.saturating_add(self.settings.negative_timeout.as_secs()) }
    }

    fn touch(&self, changes: Changes) {
        if !changes.is_empty() {
            lock(&self.touched).append(changes);
            self.is_urgent.store(true, Ordering::SeqCst);
            (self.wake)();
        }
    }
}

impl Accounts for Directory {
    fn account(&self, name: &str) -> Result<Account, String> {
        let rules = self.rules().map_err(|error| error.to_string())?;
        match rules.local().uid(name) {
            _ if name == "root" => return Ok(Account::System),
            Some(uid) if rules::is_system_uid(uid) => return Ok(Account::System),
            Some(uid) => return Ok(Account::Local { uid }),
            None => {}
        }
        match self.lookup(&Lookup::PasswdByName(name.to_owned()), self.clock.now()) {
            Reply::Passwd(user) => Ok(Account::Resolver { uid: user.uid }),
            Reply::NotFound => Ok(Account::Unknown),
            // Without the name, which may be a password.
            _ => Err("the resolvers cannot tell now whose account a name is".to_owned()),
        }
    }
}

/// So many entries are listed at a time.
const LIST_PAGE: u32 = 5_000;

/// What is behind our locks is right after a panic too: it is replaced whole, or only ever added to.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
