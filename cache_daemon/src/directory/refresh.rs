//! Reading the resolvers whole, and keeping the cache and the map fresh.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use privacyidea_contract::wire::{GroupEntry, PasswdEntry};

use super::publication::{Coverage, Publication, pages};
use super::rules::shown;
use super::{Directory, DirectoryError, Listing, Resolver, ResolverState, Rules, lock};
use crate::service::clock::UnixSeconds;
use crate::store::{Cache, CacheError, ResolverListing, Times};

/// The longest time between two looks at the resolvers, in seconds.
const INTERVAL_MAX: u64 = 300;
/// How many entries of a resolver that fails are read from the cache at a time.
const PAGE: u32 = 5_000;

impl Directory {
    /// Reads what has changed and publishes the map. To be called by one thread, at start and then whenever
    /// [`Self::refresh_due`] says; costs two stat(2) calls a resolver if nothing has changed. Problems are in
    /// [`Self::take_notices`] and [`Self::status`].
    pub fn refresh(&self, now: UnixSeconds) {
        // What went wrong has been noted.
        let _ = self.renew(now, false);
    }

    /// When [`Self::refresh`] wants to be called next: at the latest after half a timeout (or some minutes), soon after a
    /// lookup found that something changed.
    #[must_use]
    pub fn refresh_due(&self, now: UnixSeconds) -> UnixSeconds {
        let last = self.last_refresh.load(Ordering::SeqCst);
        if last == 0 || last > now {
            return now;
        }
        if self.is_urgent.load(Ordering::SeqCst) {
            return last + 1;
        }
        let timeout = self.settings.timeout.min(self.settings.negative_timeout).as_secs();
        last + (timeout / 2).clamp(1, INTERVAL_MAX)
    }

    /// Reads the resolvers anew, forgets everything else, and publishes the map. Every resolver that there is finds one
    /// user by reading all of them, so `user` makes no difference yet. What a resolver that fails had said stays: a flush
    /// at the wrong moment must not lock everybody out.
    ///
    /// # Errors
    /// Every [`DirectoryError`]; what could be read is cached and published even then.
    pub fn flush(&self, _user: Option<&str>, now: UnixSeconds) -> Result<(), DirectoryError> {
        self.renew(now, true)
    }

    fn renew(&self, now: UnixSeconds, is_forced: bool) -> Result<(), DirectoryError> {
        let mut publication = lock(&self.publication);
        self.last_refresh.store(now.max(1), Ordering::SeqCst);
        self.is_urgent.store(false, Ordering::SeqCst);
        let rules = self.rules().map_err(DirectoryError::LocalFiles)?;
        let generation = self.cache.generation();
        if self.seen_generation.swap(generation, Ordering::SeqCst) != generation {
            self.notices.event("cache.db was missing or damaged and has been made anew".to_owned());
        }
        let read = if !is_forced && self.is_unchanged(&rules) {
            self.extend_if_half_over(now)
        } else {
            self.read_all(&rules, now)
        };
        if read.is_ok() {
            self.notices.state("the user cache", None);
        }
        publication.touch(std::mem::take(&mut *lock(&self.touched)));
        let published = self.publish(&mut publication, &rules, now);
        read.and(published)
    }

    /// Whether every resolver has, as far as can be told without reading, what was listed last.
    pub(super) fn is_unchanged(&self, rules: &Rules) -> bool {
        let generation = self.cache.generation();
        let states = lock(&self.states);
        self.resolvers.iter().zip(states.iter()).all(|(resolver, state)| {
            state.read.as_ref().is_some_and(|(version, under, in_generation)| {
                *in_generation == generation
                    && under.is_same_as(rules)
                    && resolver.version().as_ref() == Some(version)
            })
        })
    }

    /// Notes that a whole listing would say now what was listed last.
    pub(super) fn extend(&self, now: UnixSeconds) -> Result<(), CacheError> {
        let names: Vec<&str> = self.resolvers.iter().map(|resolver| resolver.name()).collect();
        self.cache.extend(&names, self.times(now))
    }

    /// [`Self::extend`], but not so often that it keeps a disk awake.
    fn extend_if_half_over(&self, now: UnixSeconds) -> Result<(), DirectoryError> {
        let half = self.settings.timeout.as_secs() / 2;
        let listed = self.listed().map_err(|error| self.cache_failed(&error))?;
        if listed.is_some_and(|listed| listed.fetched <= now && now < listed.fetched + half) {
            return Ok(());
        }
        self.extend(now).map_err(|error| self.cache_failed(&error))
    }

    fn read_all(&self, rules: &Rules, now: UnixSeconds) -> Result<(), DirectoryError> {
        let generation = self.cache.generation();
        let mut claims = Claims::default();
        let mut listings = Vec::new();
        let mut states = Vec::new();
        let mut problem = None;
        for resolver in &self.resolvers {
            let (mut state, listing) = match resolver.list(rules) {
                Err(error) => {
                    claims.keep(&self.cache, &**resolver, None).map_err(|error| self.cache_failed(&error))?;
                    (ResolverState { problem: Some(error.0), ..ResolverState::default() }, None)
                }
                Ok(mut listing) => {
                    if listing.incomplete.is_some() {
                        claims
                            .keep(&self.cache, &**resolver, Some(&listing))
                            .map_err(|error| self.cache_failed(&error))?;
                    }
                    // One resolver's own names and ids are unique.
                    if self.resolvers.len() > 1 || listing.incomplete.is_some() {
                        claims.screen(resolver.name(), &mut listing);
                    }
                    (ResolverState::of(&mut listing, rules, generation), Some(listing))
                }
            };
            problem = problem.or(state.problem.clone());
            self.tell(&**resolver, &mut state, listing.is_some());
            states.push(state);
            listings.extend(listing.map(|listing| (resolver.name(), listing)));
        }
        let times = self.times(now);
        let replaced = self.cache.replace(&to_put(&listings), times);
        if replaced.is_err() {
            states.iter_mut().for_each(|state| state.read = None);
        }
        *lock(&self.states) = states;
        let changes = replaced.map_err(|error| self.cache_failed(&error))?;
        lock(&self.touched).append(changes);
        problem.map_or(Ok(()), |sentence| Err(DirectoryError::Resolver(sentence)))
    }

    /// Says what is newly refused, and what is wrong with the resolver or no longer so. What it had refused before it
    /// failed stays known.
    fn tell(&self, resolver: &dyn Resolver, state: &mut ResolverState, is_read: bool) {
        let states = lock(&self.states);
        let before = states.iter().zip(&self.resolvers).find(|(_, other)| other.name() == resolver.name());
        let refused_before = before.map(|(before, _)| before.refused.as_slice()).unwrap_or_default();
        if !is_read {
            state.refused = refused_before.to_vec();
        }
        for sentence in state.refused.iter().filter(|sentence| !refused_before.contains(sentence)) {
            self.notices.event(sentence.clone());
        }
        let topic = format!("the resolver {}", resolver.name());
        let problem = state.problem.as_ref().map(|problem| format!("{topic}: {problem}"));
        self.notices.state(&topic, problem.as_deref());
        if problem.is_none() {
            self.notices.forget("a lookup");
        }
    }

    fn publish(
        &self,
        publication: &mut Publication,
        rules: &Rules,
        now: UnixSeconds,
    ) -> Result<(), DirectoryError> {
        let coverage = self.coverage(now).map_err(|error| self.cache_failed(&error))?;
        let result = publication.publish(&self.cache, rules, coverage, now);
        let problem = result.err().map(|error| error.to_string());
        self.notices.state("the lookup map", problem.as_deref());
        problem.map_or(Ok(()), |sentence| Err(DirectoryError::Cache(sentence)))
    }

    fn coverage(&self, now: UnixSeconds) -> Result<Coverage, CacheError> {
        let Some(all) = self.listed()? else {
            return Ok(Coverage { is_complete: false, fresh_until: now, is_even: false });
        };
        let is_configured = |name: &str| self.resolvers.iter().any(|resolver| resolver.name() == name);
        let listings = self.cache.listings()?;
        let is_even = listings
            .iter()
            .filter(|(name, _)| is_configured(name))
            .all(|(_, Times { expires, .. })| *expires == all.expires);
        Ok(Coverage { is_complete: true, fresh_until: all.expires, is_even })
    }

    pub(super) fn cache_failed(&self, error: &CacheError) -> DirectoryError {
        let sentence = error.to_string();
        self.notices.state("the user cache", Some(&sentence));
        DirectoryError::Cache(sentence)
    }
}

impl ResolverState {
    fn of(listing: &mut Listing, rules: &Rules, generation: u64) -> Self {
        let version = listing.version.take().filter(|_| listing.incomplete.is_none());
        Self {
            read: version.map(|version| (version, rules.clone(), generation)),
            refused: std::mem::take(&mut listing.refused),
            problem: listing.incomplete.clone(),
        }
    }
}

fn to_put<'a>(listings: &'a [(&'a str, Listing)]) -> Vec<ResolverListing<'a>> {
    listings
        .iter()
        .map(|(resolver, listing)| ResolverListing {
            resolver,
            users: &listing.users,
            groups: &listing.groups,
            is_complete: listing.incomplete.is_none(),
        })
        .collect()
}

/// Who owns which name and id: the resolver that comes first.
#[derive(Default)]
struct Claims {
    users: Owners,
    groups: Owners,
}

/// Resolvers by the names and ids that they own.
#[derive(Default)]
struct Owners {
    names: HashMap<String, Arc<str>>,
    ids: HashMap<u32, Arc<str>>,
}

impl Claims {
    /// What a resolver that fails, or answers incompletely, had said before stays its own.
    fn keep(
        &mut self,
        cache: &Cache,
        resolver: &dyn Resolver,
        listing: Option<&Listing>,
    ) -> Result<(), CacheError> {
        let listed_users: HashSet<&str> =
            listing.into_iter().flat_map(|listing| &listing.users).map(|user| user.name.as_str()).collect();
        let listed_groups: HashSet<&str> = listing
            .into_iter()
            .flat_map(|listing| &listing.groups)
            .map(|group| group.name.as_str())
            .collect();
        let owner: Arc<str> = resolver.name().into();
        pages(
            |after| cache.users_after(after, PAGE),
            |user: &PasswdEntry| &user.name,
            |user| {
                if user.resolver == *owner && !listed_users.contains(user.entry.name.as_str()) {
                    self.users.keep(user.entry.name, user.entry.uid, &owner);
                }
            },
        )?;
        pages(
            |after| cache.groups_after(after, PAGE),
            |group: &GroupEntry| &group.name,
            |group| {
                if group.resolver == *owner && !listed_groups.contains(group.entry.name.as_str()) {
                    self.groups.keep(group.entry.name, group.entry.gid, &owner);
                }
            },
        )
    }

    /// Takes out of a listing what is another's.
    fn screen(&mut self, resolver: &str, listing: &mut Listing) {
        let owner: Arc<str> = resolver.into();
        let Listing { users, groups, refused, .. } = listing;
        let mut judge = |what: &str, name: &str, claimed: Result<(), String>| match claimed {
            Ok(()) => true,
            Err(reason) => {
                let name = shown(name);
                refused.push(format!("the {what} {name} of the resolver {resolver} is refused: {reason}"));
                false
            }
        };
        users.retain(|user| judge("user", &user.name, self.users.claim(&user.name, user.uid, &owner)));
        groups.retain(|group| judge("group", &group.name, self.groups.claim(&group.name, group.gid, &owner)));
    }
}

impl Owners {
    fn keep(&mut self, name: String, id: u32, owner: &Arc<str>) {
        self.names.entry(name).or_insert_with(|| Arc::clone(owner));
        self.ids.entry(id).or_insert_with(|| Arc::clone(owner));
    }

    fn claim(&mut self, name: &str, id: u32, owner: &Arc<str>) -> Result<(), String> {
        match (self.names.get(name), self.ids.get(&id)) {
            (Some(other), _) => Err(format!("the resolver {other} has its name")),
            (None, Some(other)) => Err(format!("the resolver {other} has its id {id} under another name")),
            (None, None) => {
                self.keep(name.to_owned(), id, owner);
                Ok(())
            }
        }
    }
}
