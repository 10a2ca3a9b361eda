//! Random expressions of the whole language on every link type, mostly valid, compiled by the
//! installed libpcap and by us: acceptance, verdicts and returned lengths agree, optimised and not,
//! on packets made to their measure; and the program lowered for a socket decides on the stripped
//! frame as the program itself on the whole one.
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use ringtap_agreement::Random;
use ringtap_agreement::engine::{Checked, ENGINES};
use ringtap_agreement::judge::{Finding, Judge, is_murky};
use ringtap_agreement::packets::{Packet, guided, made, spread};
use ringtap_testkit::generate;

/// Walks through each program that make a packet.
const WALKS: usize = 8;

thread_local! {
    /// A pair of compilers for each link type met so far.
    static JUDGES: RefCell<HashMap<u32, Judge>> = RefCell::new(HashMap::new());
}

fuzz_target!(|bytes: &[u8]| {
    let mut choices = generate::Choices::new(bytes);
    let link_type = generate::link_type(&mut choices);
    let expression = generate::expression_for(link_type, &mut choices);
    let mut random = Random(seed(bytes));
    JUDGES.with_borrow_mut(|judges| {
        let judge = judges
            .entry(link_type.dlt)
            .or_insert_with(|| Judge::new(link_type.dlt, packets(link_type.dlt), WALKS));
        match judge.judge(&expression, 262_144, &mut random) {
            Finding::RefusedAlike | Finding::Overwritten | Finding::Newer | Finding::Older(_) => {}
            Finding::Different(_) if is_murky(&expression, link_type.dlt) => {}
            Finding::Different(how) => panic!("DLT {}: {expression:?}: {how}", link_type.dlt),
            Finding::Alike(alike) => {
                let (plain, optimised) = alike.ours;
                for program in std::iter::once(plain).chain(optimised) {
                    let packets = guided::packets(program.insns(), WALKS, &mut random);
                    for engine in ENGINES.iter().filter(|engine| !engine.is_kernel) {
                        let checked: Result<Checked, String> = (engine.check)(&program, &packets);
                        if let Err(how) = checked {
                            panic!(
                                "{}: DLT {}: {expression:?}: {how}",
                                engine.name, link_type.dlt
                            );
                        }
                    }
                }
            }
        }
    });
});

/// Returns a few made-up packets, whole and long enough for every header.
fn packets(dlt: u32) -> Vec<Packet> {
    spread(made::generated(dlt), 20)
}

fn seed(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
