//! The lookup map: passwd and group entries in files that NSS reads without a system call (`docs/map-format.md`).
//!
//! The daemon fills a [`Contents`] and calls [`publish()`]; a reader keeps a [`Snapshot`] and asks it. Two files make one
//! map: the base ([`BASE_FILE`], the last full listing) and the recent one ([`RECENT_FILE`], what was learnt or changed
//! since), which shadows the base key by key. Neither is ever changed after its publication except for two words of
//! its header: how long it is fresh, and how often something newer was published.
//!
//! The map belongs to the daemon's user, not to root, so readers believe nothing in it: every position is checked, and
//! a damaged file gives an error or no answer.

mod bytes;
mod contents;
mod index;
mod layout;
mod publish;
mod reader;
mod snapshot;
mod view;

pub use contents::{Contents, Description, Unusable};
pub use publish::{Published, publish, set_fresh_until};
pub use reader::{Map, MapError};
pub use snapshot::{Cursor, Found, Snapshot};
pub use view::{Age, Answer, GroupView, GroupsView, PasswdView};

/// File name of the last full listing. The format version is part of the name: a program that still has an older
/// module loaded never sees a format that it does not know.
pub const BASE_FILE: &str = "lookup-1.map";
/// File name of what was learnt or changed since.
pub const RECENT_FILE: &str = "lookup-1.recent.map";
/// How far in the future a map may have been built, in seconds, before its reader concludes that the clock was set
/// back and stops to call its entries fresh.
pub const CLOCK_SLACK: u64 = 60;
