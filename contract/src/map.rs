//! The lookup map (see `docs/lookup-map.md`).
