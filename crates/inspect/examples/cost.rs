//! Measures what looking at payloads costs: `cargo run --release -p ringtap-inspect --example cost -- FILE…`.
//!
//! The first payloads of the flows of capture files are looked at again and again, each as a flow of its
//! own; the table has nanoseconds for each call by protocol, the median of 9 rounds.

#[expect(dead_code, reason = "only the reading of files is used here")]
#[path = "../tests/tshark/driver.rs"]
mod driver;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use ringtap_inspect::{Entry, FlowState, InspectOptions, Inspector, Payload, Protocol, Transport};

const ROUNDS: usize = 9;
/// Calls of a round, at least.
const CALLS: usize = 200_000;

struct Kept {
    transport: Transport,
    ports: [u16; 2],
    data: Vec<u8>,
}

fn main() {
    let mut by_protocol: BTreeMap<&str, Vec<Kept>> = BTreeMap::new();
    for file in std::env::args().skip(1) {
        for kept in payloads(Path::new(&file)) {
            let mut inspector = inspector();
            let (mut entry, mut state) = (Entry::new(), FlowState::default());
            inspector.look(1, &mut entry, &mut state, &kept.payload());
            let name = match entry.protocol() {
                Some(Protocol::Tls) if entry.fields().tls_ja4.is_some() => "tls: ClientHello",
                Some(protocol) => protocol.name(),
                // On ports of TLS the first one is kept.
                None if state != FlowState::default() && kept.ports[1] == 443 => {
                    "none, on port 443"
                }
                None => "none",
            };
            by_protocol.entry(name).or_default().push(kept);
        }
    }
    println!("| protocol | payloads | ns a call |\n|---|---|---|");
    for (name, kept) in &by_protocol {
        println!("| {name} | {} | {:.0} |", kept.len(), cost(kept));
    }
}

fn inspector() -> Inspector {
    Inspector::new(&InspectOptions::default()).expect("valid options")
}

fn cost(kept: &[Kept]) -> f64 {
    let mut inspector = inspector();
    let passes = CALLS.div_ceil(kept.len());
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let mut flow = 0;
            for _ in 0..passes {
                for kept in kept {
                    flow += 1;
                    let (mut entry, mut state) = (Entry::new(), FlowState::default());
                    inspector.look(flow, &mut entry, &mut state, &kept.payload());
                    inspector.forget(flow, &mut state);
                    black_box(&entry);
                }
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(flow)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

impl Kept {
    fn payload(&self) -> Payload<'_> {
        Payload {
            transport: self.transport,
            from_initiator: true,
            initiator: IpAddr::from([192, 0, 2, 1]),
            responder: IpAddr::from([192, 0, 2, 2]),
            initiator_port: self.ports[0],
            responder_port: self.ports[1],
            time_ns: 1,
            data: &self.data,
            complete: true,
        }
    }
}

/// The payloads of TCP and UDP in a file.
fn payloads(file: &Path) -> Vec<Kept> {
    let mut all = Vec::new();
    let read = driver::each_packet(file, |segment, _| {
        all.extend(segment.filter(|it| !it.data.is_empty()).map(|it| Kept {
            transport: it.transport,
            ports: [it.source.port(), it.destination.port()],
            data: it.data.to_vec(),
        }));
    });
    assert!(read.is_some(), "{} is no capture file", file.display());
    all
}
