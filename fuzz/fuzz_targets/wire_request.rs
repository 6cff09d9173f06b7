//! What a local user may send to the daemon: never a panic, and what is read is written back to the same bytes.
#![no_main]
use libfuzzer_sys::fuzz_target;
use privacyidea_contract::wire::Request;

fuzz_target!(|frame: &[u8]| {
    if let Ok((request, version)) = Request::decode(frame) {
        let written = request.encode_in(version).expect("what fitted a frame fits it again");
        assert_eq!(&written[4..], frame);
    }
});
