//! Captures into a file: blocks in, large writes out, nothing copied or allocated per packet.
//!
//! `cargo run --release --example write DEVICE FILE [SECONDS]`; needs CAP_NET_RAW.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Next, open};
use ringtap_savefile::{PcapOptions, PcapWriter};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(device), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("write DEVICE FILE [SECONDS]".into());
    };
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let options = CaptureOptions::default().timeout(Duration::from_millis(500));
    let mut source = open(&device, &options, None)?;
    eprint!("{}", source.describe());
    let settings = PcapOptions::for_interface(&source.interfaces()[0]);
    let mut writer = PcapWriter::new(File::create(path)?, &settings)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        if let Next::Block(block) = source.next()? {
            let mut batch = writer.batch();
            for packet in &block {
                batch.push(&packet)?;
            }
            batch.commit()?;
        }
    }
    let (mut file, totals) = writer.finish()?;
    file.flush()?;
    eprintln!("{totals:?}\n{:?}", source.stats()?);
    Ok(())
}
