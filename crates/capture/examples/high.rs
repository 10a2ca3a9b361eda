//! The higher level: open, filter, one closure for each packet.
//!
//! `cargo run --release --example high DEVICE [FILTER…]`; ends after 10 packets. Needs the privileges of a
//! capture.

use std::ops::ControlFlow;
use std::time::Duration;

use ringtap_capture::{Capture, Error};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap_or_else(|| "lo".to_owned());
    let filter: Vec<String> = arguments.collect();
    let mut capture = Capture::on(&device)
        .filter(&filter.join(" "))
        .snaplen(96)
        .timeout(Duration::from_millis(100))
        .open()?;
    let mut left = 10;
    capture.for_each(|packet| {
        let (time, kept) = (packet.timestamp, packet.data.len());
        let (secs, nanos) = (time.secs(), time.subsec_nanos());
        println!("{secs}.{nanos:09}  {} bytes, {kept} kept", packet.len);
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let stats = capture.stats()?;
    println!("received {:?}, {:?}", stats.received, stats.dropped);
    Ok(())
}
