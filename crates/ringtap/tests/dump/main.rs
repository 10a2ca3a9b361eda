//! `ringtap dump` as its users run it: the program, its output, its exit status.
//!
//! Compared with tcpdump where both do the same ([`corpus`]); on a network of the test's own
//! ([`live`], [`shutdown`], [`privileges`]); when things go wrong ([`failures`]); to several files and compressed ones ([`writing`]); for its memory
//! ([`memory`]), and that of the loop beneath it ([`allocations`]); searches by indices ([`search`]);
//! where packets are received ([`placement`]); PCAP over IP ([`over_ip`]); all network namespaces ([`namespaces`]); what users of tcpdump type ([`habits`]).
#![forbid(unsafe_code)]

mod allocations;
mod corpus;
mod failures;
mod habits;
mod listing;
mod live;
mod memory;
mod namespaces;
mod netmask;
mod over_ip;
mod placement;
mod privileges;
mod program;
mod search;
mod shutdown;
mod writing;

use std::process::ExitCode;

fn main() -> ExitCode {
    let lists = [
        corpus::tests(),
        listing::tests(),
        live::tests(),
        shutdown::tests(),
        privileges::tests(),
        failures::tests(),
        habits::tests(),
        writing::tests(),
        memory::tests(),
        placement::tests(),
        netmask::tests(),
        namespaces::tests(),
        over_ip::tests(),
        allocations::tests(),
        search::tests(),
    ];
    ringtap_testkit::suite(lists.into_iter().flatten().collect())
}
