//! Captures in an event loop: descriptors that become readable when there are packets, for poll(2),
//! epoll, or the reactor of an async runtime (such as `AsyncFd` of tokio, which takes the same number).
//!
//! `cargo run --release --example poll DEVICE…`; ends after 5 s. Needs the privileges of a capture.

use std::error::Error;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Next, Source, open};
use ringtap_sys::poll::ReadSet;

fn main() -> Result<(), Box<dyn Error>> {
    let devices: Vec<String> = std::env::args().skip(1).collect();
    let mut sources = Vec::new();
    let mut fds: Vec<RawFd> = Vec::new();
    for device in &devices {
        let mut source = open(device, &CaptureOptions::default(), None)?;
        let polling = source.polling().ok_or("the engine has no descriptor")?;
        fds.push(polling.fd()?);
        sources.push(source);
    }
    let end = Instant::now() + Duration::from_secs(5);
    let mut ready = ReadSet::default();
    while Instant::now() < end {
        ready.wait_by_number(fds.iter().copied(), Duration::from_millis(500))?;
        for (device, source) in devices.iter().zip(&mut sources) {
            let packets = take_all(&mut **source)?;
            if packets > 0 {
                println!("{device}: {packets} packets");
            }
        }
    }
    Ok(())
}

/// Takes the available packets. The descriptor becomes readable again for later ones.
fn take_all(source: &mut dyn Source) -> Result<usize, ringtap_capture::Error> {
    let mut packets = 0;
    loop {
        match source.try_next()? {
            Next::Block(block) => packets += block.packets().count(),
            Next::TimedOut | Next::Woken | Next::End => return Ok(packets),
            _ => {}
        }
    }
}
