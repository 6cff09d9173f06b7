//! One question of the NSS module: answered from the cache while that is believed, else by the resolvers.

use privacyidea_contract::names::{is_usable_id, is_usable_name};
use privacyidea_contract::wire::{GroupEntry, Lookup, PasswdEntry, Reply};

use super::rules::shown;
use super::{Directory, Resolver, ResolverError, Rules};
use crate::service::clock::UnixSeconds;
use crate::store::{CacheError, Changes, Times};

/// What the cache says.
enum Known {
    /// It is believed.
    Fresh(Reply),
    /// It was believed, and is still good enough while nobody can be asked.
    Stale(Reply),
    /// Nothing.
    Nothing,
}

impl Directory {
    /// Answers the NSS module: [`Reply::Passwd`], [`Reply::Group`], [`Reply::Groups`], [`Reply::NotFound`] or
    /// [`Reply::Unavailable`]. Names and ids that the host's own files have are not found here, except that
    /// [`Lookup::Groups`] of an ordinary local user answers the groups that list that user.
    ///
    /// May take as long as the resolvers take.
    pub fn lookup(&self, lookup: &Lookup, now: UnixSeconds) -> Reply {
        let rules = match self.rules() {
            Ok(rules) => rules,
            Err(_) => return Reply::Unavailable,
        };
        if !may_exist(lookup, &rules) {
            return Reply::NotFound;
        }
        match self.known(lookup, now, &rules) {
            Ok(Known::Fresh(reply)) => return self.sendable(reply),
            Ok(_) => {}
            Err(error) => self.notices.state("the user cache", Some(&error.to_string())),
        }
        let reply = self.flights.ask(lookup, || match self.known(lookup, now, &rules) {
            // Somebody asked between the look into the cache and now.
            Ok(Known::Fresh(reply)) => reply,
            Ok(Known::Stale(reply)) => self.ask(lookup, now, &rules).unwrap_or(reply),
            Ok(Known::Nothing) | Err(_) => self.ask(lookup, now, &rules).unwrap_or(Reply::Unavailable),
        });
        self.sendable(reply)
    }

    /// A group with so many members that they do not fit into a message can be answered by the map only.
    fn sendable(&self, reply: Reply) -> Reply {
        let Reply::Group(group) = &reply else { return reply };
        if group.members.len() < 1000 || reply.encode().is_ok() {
            return reply;
        }
        let topic = format!("the group {}", shown(&group.name));
        let problem =
            format!("{topic} has too many members for one message; programs see it in the lookup map only");
        self.notices.state(&topic, Some(&problem));
        Reply::Unavailable
    }

    fn known(&self, lookup: &Lookup, now: UnixSeconds, rules: &Rules) -> Result<Known, CacheError> {
        let stale_for = self.settings.stale_for.as_secs();
        let judged = |is_fresh: bool, expires: UnixSeconds, reply: Reply| {
            if is_fresh {
                Known::Fresh(reply)
            } else if now < expires.saturating_add(stale_for) {
                Known::Stale(reply)
            } else {
                Known::Nothing
            }
        };
        match lookup {
            Lookup::PasswdByName(_) | Lookup::PasswdById(_) => {
                if let Some(user) = self.cache.user(lookup)? {
                    if rules.check_user(&user.entry).is_err() {
                        return Ok(Known::Fresh(Reply::NotFound));
                    }
                    return Ok(judged(user.is_fresh(now), user.expires(), Reply::Passwd(user.entry)));
                }
            }
            Lookup::GroupByName(_) | Lookup::GroupById(_) => {
                if let Some(group) = self.cache.group(lookup)? {
                    if rules.check_group(&group.entry).is_err() {
                        return Ok(Known::Fresh(Reply::NotFound));
                    }
                    return Ok(judged(group.is_fresh(now), group.expires(), Reply::Group(group.entry)));
                }
            }
            Lookup::Groups(member) => {
                let mut groups = self.cache.groups_of(member)?;
                groups.retain(|group| rules.check_group(&group.entry).is_ok());
                let is_user = self.cache.user(&Lookup::PasswdByName(member.clone()))?.is_some();
                if is_user || !groups.is_empty() {
                    let asked = self.cache.groups_of_asked(member)?;
                    let listed = self.listed()?;
                    let is_fresh = [asked, listed].iter().flatten().any(|times| times.are_fresh(now));
                    let expires = [asked, listed].iter().flatten().map(|times| times.expires).max();
                    let gids = groups.iter().map(|group| group.entry.gid).collect();
                    return Ok(judged(is_fresh, expires.unwrap_or(0), Reply::Groups(gids)));
                }
            }
        }
        let is_absent = self.cache.absent(lookup)?.is_some_and(|times| times.are_fresh(now))
            || self.listed()?.is_some_and(|listed| {
                let expires = listed.fetched.saturating_add(self.settings.negative_timeout.as_secs());
                Times { fetched: listed.fetched, expires }.are_fresh(now)
            });
        Ok(if is_absent { Known::Fresh(Reply::NotFound) } else { Known::Nothing })
    }

    /// When all resolvers had been listed whole: what the cache lacks did not exist then.
    pub(super) fn listed(&self) -> Result<Option<Times>, CacheError> {
        let listings = self.cache.listings()?;
        let mut all: Option<Times> = None;
        for resolver in &self.resolvers {
            let Some((_, times)) = listings.iter().find(|(name, _)| name == resolver.name()) else {
                return Ok(None);
            };
            let earliest = all.unwrap_or(*times);
            all = Some(Times {
                fetched: earliest.fetched.min(times.fetched),
                expires: earliest.expires.min(times.expires),
            });
        }
        Ok(all)
    }

    /// Asks the resolvers for this entry only, in order; none: one that comes before the answer failed.
    fn ask(&self, lookup: &Lookup, now: UnixSeconds, rules: &Rules) -> Option<Reply> {
        if self.is_unchanged(rules) && self.extend(now).is_ok() {
            // The files are as they were listed, so the cache is right.
            if let Ok(Known::Fresh(reply)) = self.known(lookup, now, rules) {
                return Some(reply);
            }
        }
        match self.ask_resolvers(lookup, now, rules) {
            Ok(reply) => Some(reply),
            Err(error) => {
                self.notices.state("a lookup", Some(&error.to_string()));
                None
            }
        }
    }

    fn ask_resolvers(
        &self,
        lookup: &Lookup,
        now: UnixSeconds,
        rules: &Rules,
    ) -> Result<Reply, ResolverError> {
        let times = self.times(now);
        if let Lookup::Groups(member) = lookup {
            return self.ask_groups_of(member, now, rules);
        }
        for (index, resolver) in self.resolvers.iter().enumerate() {
            let name = resolver.name();
            if let Some(user) = user_of(&**resolver, lookup, rules)? {
                if self.is_user_of_earlier(index, &user, rules)? {
                    break;
                }
                self.learnt(self.cache.learn_user(&user, name, times));
                return Ok(Reply::Passwd(user));
            }
            if let Some(group) = group_of(&**resolver, lookup, rules)? {
                if self.is_group_of_earlier(index, &group, rules)? {
                    break;
                }
                self.learnt(self.cache.learn_group(&group, name, times));
                return Ok(Reply::Group(group));
            }
        }
        self.learnt(self.cache.learn_absent(lookup, self.negative_times(now)));
        Ok(Reply::NotFound)
    }

    fn ask_groups_of(&self, member: &str, now: UnixSeconds, rules: &Rules) -> Result<Reply, ResolverError> {
        let mut groups: Vec<(GroupEntry, &str)> = Vec::new();
        for (index, resolver) in self.resolvers.iter().enumerate() {
            for group in resolver.groups_of(member, rules)? {
                if !self.is_group_of_earlier(index, &group, rules)? {
                    groups.push((group, resolver.name()));
                }
            }
        }
        let mut gids: Vec<u32> = groups.iter().map(|(group, _)| group.gid).collect();
        gids.sort_unstable();
        if gids.is_empty() {
            let user = Lookup::PasswdByName(member.to_owned());
            let is_user = match self.known(&user, now, rules) {
                Ok(Known::Fresh(Reply::Passwd(_))) => true,
                Ok(Known::Fresh(_)) => false,
                _ => matches!(self.ask_resolvers(&user, now, rules)?, Reply::Passwd(_)),
            };
            if !is_user {
                let absent = Lookup::Groups(member.to_owned());
                self.learnt(self.cache.learn_absent(&absent, self.negative_times(now)));
                return Ok(Reply::NotFound);
            }
        }
        self.learnt(self.cache.learn_groups_of(member, &groups, self.times(now)));
        Ok(Reply::Groups(gids))
    }

    /// Whether a resolver that comes before this one has the user's name or id.
    fn is_user_of_earlier(
        &self,
        index: usize,
        user: &PasswdEntry,
        rules: &Rules,
    ) -> Result<bool, ResolverError> {
        for earlier in &self.resolvers[..index] {
            if earlier.user_by_name(&user.name, rules)?.is_some()
                || earlier.user_by_uid(user.uid, rules)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a resolver that comes before this one has the group's name or id.
    fn is_group_of_earlier(
        &self,
        index: usize,
        group: &GroupEntry,
        rules: &Rules,
    ) -> Result<bool, ResolverError> {
        for earlier in &self.resolvers[..index] {
            if earlier.group_by_name(&group.name, rules)?.is_some()
                || earlier.group_by_gid(group.gid, rules)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Leaves what changed to the next refresh to publish, and lets that come soon. An answer is given even if the cache
    /// could not keep it.
    fn learnt(&self, result: Result<Changes, CacheError>) {
        match result {
            Ok(changes) => self.touch(changes),
            Err(error) => self.notices.state("the user cache", Some(&error.to_string())),
        }
    }
}

/// Whether a resolver could have the entry at all: nobody is asked about root, reserved ids and what is the host's own.
fn may_exist(lookup: &Lookup, rules: &Rules) -> bool {
    let local = rules.local();
    match lookup {
        Lookup::PasswdByName(name) => is_usable_name(name) && local.uid(name).is_none(),
        Lookup::PasswdById(uid) => is_usable_id(*uid) && local.user(*uid).is_none(),
        Lookup::GroupByName(name) => is_usable_name(name) && local.gid(name).is_none(),
        Lookup::GroupById(gid) => is_usable_id(*gid) && local.group(*gid).is_none(),
        Lookup::Groups(member) => rules.check_member(member).is_ok(),
    }
}

fn user_of(
    resolver: &dyn Resolver,
    lookup: &Lookup,
    rules: &Rules,
) -> Result<Option<PasswdEntry>, ResolverError> {
    match lookup {
        Lookup::PasswdByName(name) => resolver.user_by_name(name, rules),
        Lookup::PasswdById(uid) => resolver.user_by_uid(*uid, rules),
        _ => Ok(None),
    }
}

fn group_of(
    resolver: &dyn Resolver,
    lookup: &Lookup,
    rules: &Rules,
) -> Result<Option<GroupEntry>, ResolverError> {
    match lookup {
        Lookup::GroupByName(name) => resolver.group_by_name(name, rules),
        Lookup::GroupById(gid) => resolver.group_by_gid(*gid, rules),
        _ => Ok(None),
    }
}
