//! libnss_privacyidea.so.2: answers glibc from the lookup map, else from the daemon, else "unavailable".
//!
//! - [`entry`]: the functions that glibc calls
//! - [`boundary`]: the one place where status and errno are set and panics end
//! - [`answer`]: map, daemon, stale map: who answers
//! - [`question`]: the five things that can be asked
//! - [`snapshots`]: the mapped files, shared by the threads of a process
//! - [`daemon`]: one question over the socket
//! - [`fill`]: entries into the caller's buffer
//! - [`group_list`]: gids into the list of initgroups
//! - [`enumeration`]: getpwent and getgrent
//! - [`process_lock`]: a try-lock that a fork cannot leave locked
//!
//! A hit takes no lock, allocates nothing and makes no system call. The module keeps no file descriptor, starts no
//! thread, prints nothing, and reads one environment variable (see [`daemon`]).

mod answer;
mod boundary;
mod daemon;
mod entry;
mod enumeration;
mod fill;
mod group_list;
mod process_lock;
mod question;
mod snapshots;
