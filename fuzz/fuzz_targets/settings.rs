//! A settings file of any content: a value or one sentence, never a panic.
#![no_main]
use cache_daemon::settings::Settings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(mistake) = Settings::parse(text) {
        assert!(!mistake.to_string().contains('\n'), "one line");
    }
});
