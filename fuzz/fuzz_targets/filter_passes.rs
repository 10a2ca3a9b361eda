//! Random expressions, mostly valid. Each pass of the optimiser alone must keep the program's verdicts, on
//! random packets, whole and cut.
#![no_main]

use ringtap_agreement::packets::{self, made};
use ringtap_testkit::generate;

use libfuzzer_sys::fuzz_target;
use ringtap_filter::{CompileOptions, LinkType, Tables, each_pass};

/// Link types whose packets are made up, with all kinds of places to look at.
const LINK_TYPES: [u32; 8] = [1, 0, 9, 12, 51, 108, 113, 276];
/// Packets for one expression, taken in turn from all.
const PACKETS: usize = 64;

thread_local! {
    static PACKETS_OF: Vec<Vec<packets::Packet>> =
        LINK_TYPES.iter().map(|&dlt| made::generated(dlt)).collect();
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([which, from], choices)) = bytes.split_first_chunk() else {
        return;
    };
    let which = usize::from(*which) % LINK_TYPES.len();
    let options = CompileOptions::new(LinkType::from_dlt(LINK_TYPES[which]).expect("a link type"));
    let expression = generate::expression(&mut generate::Choices::new(choices));
    PACKETS_OF.with(|packets| {
        let every = packets[which].len() / PACKETS;
        let packets: Vec<_> = packets[which]
            .iter()
            .skip(usize::from(*from) % every)
            .step_by(every)
            .cloned()
            .collect();
        if let Err(difference) = each_pass::check(&expression, &options, &Tables::new(), &packets) {
            panic!("{expression:?}: {difference}");
        }
    });
});
