//! HOTP, TOTP, simple pass, recovery codes, PIN handling: pure functions, the time passed in. No I/O of any kind.
