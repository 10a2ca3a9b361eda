//! Generated Ethernet packets, the same in every run.

use ringtap_packet::ether_type::{ARP, IPV4, IPV6};
use ringtap_packet::protocol::{TCP, UDP};

/// The addresses in the largest filter.
pub(crate) const ADDRESSES: [[u8; 4]; 10] = [
    [10, 0, 1, 7],
    [10, 0, 2, 14],
    [10, 0, 3, 21],
    [10, 0, 4, 28],
    [10, 0, 5, 35],
    [10, 0, 6, 42],
    [10, 0, 7, 49],
    [10, 0, 8, 56],
    [10, 0, 9, 63],
    [10, 0, 10, 70],
];
/// The ports in the filters.
pub(crate) const PORTS: [u16; 10] = [80, 443, 8080, 22, 25, 53, 110, 143, 993, 995];

const PACKETS: usize = 2048;

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[3])
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }
}

struct Fields {
    ether_type: u16,
    protocol: u8,
    addresses: [[u8; 4]; 2],
    ports: [u16; 2],
    stations: [u8; 2],
}

fn packet(fields: &Fields, random: &mut Random) -> Vec<u8> {
    let mut packet = Vec::with_capacity(64);
    packet.extend([2, 0, 0, 0, 0, fields.stations[1]]);
    packet.extend([2, 0, 0, 0, 0, fields.stations[0]]);
    packet.extend(fields.ether_type.to_be_bytes());
    packet.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, fields.protocol, 0, 0]);
    packet.extend(fields.addresses.iter().flatten());
    packet.extend(fields.ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend(random.bytes::<22>());
    packet
}

fn mixed(random: &mut Random) -> Vec<u8> {
    let ether_type = random.pick(&[IPV4, IPV4, IPV4, IPV4, IPV4, IPV4, IPV6, ARP]);
    let protocol = random.pick(&[TCP, TCP, TCP, UDP]);
    let mut address = || {
        if random.below(2) == 0 {
            random.pick(&ADDRESSES)
        } else {
            random.bytes()
        }
    };
    let addresses = [address(), address()];
    let mut port = || match random.below(3) {
        0 => random.pick(&PORTS),
        _ => u16::from_be_bytes(random.bytes()),
    };
    let ports = [port(), port()];
    let stations = [random.pick(&[1, 1, 3]), random.pick(&[2, 2, 3])];
    packet(
        &Fields {
            ether_type,
            protocol,
            addresses,
            ports,
            stations,
        },
        random,
    )
}

/// Returns a packet that passes every test of the filter but the last.
fn last(expression: &str, random: &mut Random) -> Vec<u8> {
    let udp_filter = expression.contains("udp");
    let fields = Fields {
        ether_type: if expression == "ip" {
            random.pick(&[IPV6, ARP])
        } else {
            IPV4
        },
        protocol: TCP,
        addresses: [random.bytes(), random.pick(&ADDRESSES)],
        ports: [40_000 + random.pick(&PORTS), 50_000 + random.pick(&PORTS)],
        stations: if udp_filter { [1, 2] } else { random.bytes() },
    };
    packet(&fields, random)
}

/// Returns the kinds of traffic for a filter, by name.
pub(crate) fn kinds(expression: &str) -> [(&'static str, Vec<Vec<u8>>); 2] {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    [
        ("mixed", (0..PACKETS).map(|_| mixed(&mut random)).collect()),
        (
            "last",
            (0..PACKETS)
                .map(|_| last(expression, &mut random))
                .collect(),
        ),
    ]
}
