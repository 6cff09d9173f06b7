//! Sockets, workers, deadlines, readiness, signals: how decisions are reached over, never which.

pub mod clock;
