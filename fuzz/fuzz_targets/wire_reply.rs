//! What a broken or hostile daemon may send to the modules.
#![no_main]
use libfuzzer_sys::fuzz_target;
use privacyidea_contract::wire::Reply;

fuzz_target!(|frame: &[u8]| {
    if let Ok(reply) = Reply::decode(frame) {
        let written = reply.encode().expect("what fitted a frame fits it again");
        assert_eq!(&written[4..], frame);
    }
});
