//! Names from packets whose sender means harm: markup, control characters, terminal escapes, marks that turn the
//! direction of writing.

use std::path::Path;

use etherparse::PacketBuilder;

/// The names, as packets have them and as every view shows them.
const NAMES: [(Carrier, &str, &str); 7] = [
    (
        Carrier::Http,
        "<img src=x onerror=alert(1)>",
        "<img src=x onerror=alert(1)>",
    ),
    (
        Carrier::Sni,
        "<script>alert(2)</script>.example",
        "<script>alert(2)</script>.example",
    ),
    (
        Carrier::Dns,
        "<svg onload=alert(3)>.example",
        "<svg onload=alert(3)>.example",
    ),
    (
        Carrier::Dhcp,
        "<iframe src=javascript:alert(4)>",
        "<iframe src=javascript:alert(4)>",
    ),
    // Clears a terminal, gives its window another title, and asks it for an answer.
    (
        Carrier::Sni,
        "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[6n.example",
        r"a\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[6n.example",
    ),
    (
        Carrier::Dns,
        "b\u{1b}[31m\u{9b}5m.example",
        r"b\u{1b}[31m\u{9b}5m.example",
    ),
    (
        Carrier::Http,
        "evil\u{202e}gpj.example",
        r"evil\u{202e}gpj.example",
    ),
];

#[derive(Clone, Copy)]
enum Carrier {
    Http,
    Sni,
    Dns,
    Dhcp,
}

/// Returns the names as views must show them.
pub(crate) fn shown() -> Vec<&'static str> {
    NAMES.iter().map(|(_, _, shown)| *shown).collect()
}

/// Writes a capture file with a flow for each name; returns the number of its packets, which are as many flows.
pub(crate) fn write(path: &Path) -> usize {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    let frames = (0_u16..).zip(NAMES);
    let frames = frames.flat_map(|(number, (carrier, name, _))| frames_of(number, carrier, name));
    let frames: Vec<Vec<u8>> = frames.collect();
    for (number, frame) in (0_u32..).zip(&frames) {
        let length = u32::try_from(frame.len()).expect("a short frame");
        for word in [1_700_000_000, number * 1000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).expect("a file");
    frames.len()
}

fn frames_of(number: u16, carrier: Carrier, name: &str) -> Vec<Vec<u8>> {
    let host = u8::try_from(number + 1).expect("few names");
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, host], [2, 0, 0, 0, 1, host]);
    let network = link.ipv4([10, 9, 0, host], [192, 0, 2, host], 64);
    let mut frame = Vec::new();
    let mut more = Vec::new();
    let port = 40_000 + number;
    let written = match carrier {
        Carrier::Http => {
            let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
            let packet = network.tcp(port, 80, 1, 1000).ack(1);
            packet.write(&mut frame, request.as_bytes())
        }
        Carrier::Sni => {
            let packet = network.tcp(port, 443, 1, 1000).ack(1);
            packet.write(&mut frame, &client_hello(name.as_bytes()))
        }
        Carrier::Dns => {
            // An answer, and a packet to the address in it.
            let named = [198, 51, 100, host];
            let link = PacketBuilder::ethernet2([2, 0, 0, 0, 1, host], [2, 0, 0, 0, 0, host]);
            let network = link.ipv4([10, 9, 0, host], named, 64);
            let packet = network.udp(port, 9999);
            packet
                .write(&mut more, b"to that host")
                .expect("a frame in memory");
            let link = PacketBuilder::ethernet2([2, 0, 0, 0, 1, host], [2, 0, 0, 0, 0, host]);
            let network = link.ipv4([192, 0, 2, host], [10, 9, 0, host], 64);
            network
                .udp(53, port)
                .write(&mut frame, &answer(name, named))
        }
        Carrier::Dhcp => network
            .udp(68, 67)
            .write(&mut frame, &discover(name.as_bytes())),
    };
    written.expect("a frame in memory");
    let all = [frame, more].into_iter();
    all.filter(|frame| !frame.is_empty()).collect()
}

/// Puts the length before the bytes, in `width` bytes.
fn counted(width: usize, bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_be_bytes();
    [&length[8 - width..], bytes].concat()
}

fn client_hello(name: &[u8]) -> Vec<u8> {
    let entry = [&[0][..], &counted(2, name)].concat();
    let extension = [&[0, 0][..], &counted(2, &counted(2, &entry))].concat();
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    // No session, one cipher suite, no compression.
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello.extend(counted(2, &extension));
    let handshake = [&[1][..], &counted(3, &hello)].concat();
    [&[22, 3, 1][..], &counted(2, &handshake)].concat()
}

fn answer(name: &str, address: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    for label in name.split('.') {
        message.extend(counted(1, label.as_bytes()));
    }
    message.extend([0, 0, 1, 0, 1]);
    // The name of the question; class, type, an hour.
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16]);
    message.extend(counted(2, &address));
    message
}

fn discover(name: &[u8]) -> Vec<u8> {
    let mut message = vec![1, 1, 6, 0];
    message.resize(236, 0);
    message.extend([99, 130, 83, 99, 53, 1, 1, 12]);
    message.extend(counted(1, name));
    message.push(255);
    message
}
