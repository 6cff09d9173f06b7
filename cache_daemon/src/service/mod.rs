//! Sockets, workers, deadlines, readiness, signals: how decisions are reached over, never which.

pub mod clock;
mod conversation;
mod identity;
mod journal;
mod room;
mod stop;
mod workers;
