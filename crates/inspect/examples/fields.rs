//! Prints the fields of the flows of capture files:
//! `cargo run -p ringtap-inspect --example fields -- FILE…`.

#[path = "../tests/tshark/driver.rs"]
mod driver;

use std::path::Path;

fn main() {
    for file in std::env::args().skip(1) {
        let Some(capture) = driver::read(Path::new(&file)) else {
            eprintln!("{file}: not a capture file that can be read");
            continue;
        };
        for flow in capture.flows.iter().filter(|flow| !flow.entry.is_empty()) {
            let transport = if flow.is_tcp { "tcp" } else { "udp" };
            let (initiator, responder) = (flow.initiator, flow.responder);
            let fields = format!("{:?}", flow.entry.fields());
            let known: Vec<&str> = fields
                .split(", ")
                .filter(|it| !it.ends_with("None"))
                .collect();
            println!("{transport} {initiator} > {responder} {}", known.join(", "));
        }
    }
}
