//! Arguments: a capture file, and a device that receives packets.

use pcap::{Active, Capture, Device, Error, Linktype};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, device] = arguments.as_slice() else {
        eprintln!("usage: guest FILE DEVICE");
        std::process::exit(2);
    };
    offline(file)?;
    errors();
    devices()?;
    live(device)
}

fn offline(file: &str) -> Result<(), Error> {
    let mut capture = Capture::from_file(file)?;
    println!("link type {:?}", capture.get_datalink());
    capture.filter("tcp port 80", true)?;
    loop {
        match capture.next_packet() {
            Ok(packet) => println!(
                "{}.{:06} {} {} {:02x?}",
                packet.header.ts.tv_sec,
                packet.header.ts.tv_usec,
                packet.header.caplen,
                packet.header.len,
                &packet.data[..packet.data.len().min(60)]
            ),
            Err(Error::NoMorePackets) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn errors() {
    println!("{:?}", Capture::from_file("missing.pcap").err());
    println!("{:?}", Capture::from_device("no-such-device").and_then(|c| c.open()).err());
    let dead = Capture::dead(Linktype::ETHERNET).expect("a handle");
    println!("{}", dead.compile("tcp port", true).is_err());
    println!("{:?}", Linktype::from_name("EN10MB"));
    println!("{:?}", Linktype(1).get_description());
}

fn devices() -> Result<(), Error> {
    let mut names: Vec<String> = Device::list()?.into_iter().map(|device| device.name).collect();
    names.retain(|name| ["lo", "veth0", "any"].contains(&name.as_str()));
    names.sort();
    println!("{names:?}");
    Ok(())
}

fn live(device: &str) -> Result<(), Error> {
    let capture = Capture::from_device(device)?.promisc(true).timeout(50).snaplen(65_535);
    let mut capture: Capture<Active> = capture.open()?;
    capture.filter("udp", true)?;
    let mut seen = 0;
    while seen < 20 {
        match capture.next_packet() {
            Ok(packet) => {
                println!("{} {:02x?}", packet.header.len, &packet.data[..60]);
                seen += 1;
            }
            Err(Error::TimeoutExpired) => {}
            Err(error) => return Err(error),
        }
    }
    capture.sendpacket([0x55_u8; 60])?;
    println!("dropped {}", capture.stats()?.dropped);
    Ok(())
}
