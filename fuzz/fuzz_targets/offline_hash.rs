//! An offline value of any content: a hash that is kept as it came, or a reason, never a panic.
#![no_main]
use cache_daemon::tokens::OfflineHash;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(hash) = text.parse::<OfflineHash>() {
        assert_eq!(hash.as_str(), text);
    }
});
