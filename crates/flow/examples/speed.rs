//! Meters frames from memory, to measure the cost of a packet without reading files. The first argument is
//! the number of packets, the second the number of flows.

use std::time::Instant;

use ringtap_flow::{FlowRecord, LinkType, Meter, MeterOptions, Packet};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let packets: u64 = arguments.next().as_deref().unwrap_or("20000000").parse()?;
    let flows: u64 = arguments.next().as_deref().unwrap_or("1000000").parse()?;
    let mut meter = Meter::new(&MeterOptions::default())?;
    let mut records = 0_u64;
    let mut sink = |_: &FlowRecord| records += 1;
    let mut frame = [0_u8; 60];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = 46;
    frame[22] = 64;
    frame[23] = 17;
    let begun = Instant::now();
    let mut state = 1_u64;
    for time_ns in 0..packets {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let flow = u32::try_from(state % flows)?;
        frame[26..30].copy_from_slice(&flow.to_be_bytes());
        let packet = Packet {
            data: &frame,
            len: 60,
            time_ns,
            link: LinkType::ETHERNET,
            input: 1,
        };
        meter.push(&packet, &mut sink);
    }
    meter.flush(&mut sink);
    let nanos = begun.elapsed().as_nanos() / u128::from(packets.max(1));
    println!("{nanos} ns a packet, {records} records");
    Ok(())
}
