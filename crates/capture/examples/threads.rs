//! One interface, several threads: the kernel distributes the packets by flow.
//!
//! `cargo run --release --example threads DEVICE [THREADS]`; needs CAP_NET_RAW. Ends after 5 s.

use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Error, Fanout, Next, open_readers};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap_or_else(|| "lo".to_owned());
    let threads = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    let options = CaptureOptions::default()
        .timeout(Duration::from_millis(100))
        .fanout(Some(Fanout::default()));
    let sources = open_readers(&device, &options, None, threads)?.sources;
    let end = Instant::now() + Duration::from_secs(5);
    let threads: Vec<_> = sources
        .into_iter()
        .map(|mut source| {
            std::thread::spawn(move || {
                let mut packets = 0;
                while Instant::now() < end {
                    if let Next::Block(block) = source.next()? {
                        packets += block.packets().count();
                    }
                }
                Ok::<_, Error>((packets, source.stats()?))
            })
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        match thread.join() {
            Ok(result) => {
                let (packets, stats) = result?;
                println!(
                    "thread {number}: {packets} packets, {:?} dropped",
                    stats.dropped.ring
                );
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(())
}
