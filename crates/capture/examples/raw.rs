//! The lower level: blocks of a ring, its counters, its doorbell, and delivery settings changed while it
//! runs.
//!
//! `cargo run --release --example raw DEVICE [SECONDS]`; needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and
//! CAP_NET_RAW for the tap, only the last for `packet:DEVICE`.

use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Change, Delivery, Error, Next, open};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap_or_else(|| "lo".to_owned());
    let seconds = arguments.next().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(5));
    let options = CaptureOptions::default().timeout(Duration::from_millis(100));
    let mut source = open(&device, &options, None)?;
    eprint!("{}", source.describe());
    // Sooner, and in smaller blocks. Engines that cannot change it return an error.
    let sooner = Delivery {
        min_to_copy: 4 << 10,
        timeout: Duration::from_millis(20),
        immediate: false,
    };
    if let Err(error) = source.change(Change::Delivery(sooner)) {
        eprintln!("{error}");
    }
    let (mut blocks, mut packets, mut bytes) = (0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        if let Next::Block(block) = source.next()? {
            blocks += 1;
            // Packets of a block are where the kernel left them. A tap's packets are records of a capture
            // file, and could be written without examining them.
            for run in block.runs().into_iter().flatten() {
                bytes += run.bytes().len() as u64;
            }
            packets += block.packets().count() as u64;
        }
    }
    println!("{packets} packets in {blocks} blocks, {bytes} bytes of records");
    let stats = source.stats()?;
    println!("received {:?}, {:?}", stats.received, stats.dropped);
    Ok(())
}
