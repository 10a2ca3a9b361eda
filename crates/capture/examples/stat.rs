//! Counts packets by filter in the kernel, once a second for ten seconds.
//!
//! `cargo run --example stat DEVICE FILTER…`; needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use ringtap_capture::Filter;
use ringtap_capture::stat::{StatOptions, Statistics};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().ok_or("stat DEVICE FILTER…")?;
    let filters: Vec<Filter> = arguments.map(Filter::new).collect();
    let mut statistics = Statistics::open(&device, &filters, &StatOptions::default())?;
    eprint!("{}", statistics.describe());
    for _ in 0..10 {
        sleep(Duration::from_secs(1));
        let interval = statistics.read();
        for (filter, count) in filters.iter().zip(&interval.filters) {
            let (packets, bytes) = (count.packets, count.bytes);
            println!("{}: {packets} packets, {bytes} bytes", filter.expression());
        }
        println!("total: {:?} in {:?}", interval.total, interval.elapsed);
    }
    Ok(())
}
