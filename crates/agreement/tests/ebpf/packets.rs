//! Frames that reach every branch of common filters, complete and cut short.

/// Returns an Ethernet header.
fn ethernet(kind: u16) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    [addresses.as_slice(), &kind.to_be_bytes()].concat()
}

/// Returns an IPv4 packet with `words` of header, fragment field and protocol.
fn ipv4(words: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = usize::from(words) * 4;
    let total = u16::try_from(header + payload.len()).expect("short");
    let mut packet = vec![0; header.max(20)];
    packet[0] = 0x40 | words;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, protocol]);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 192, 168, 1, 2]);
    packet.extend_from_slice(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&u16::try_from(payload.len()).expect("short").to_be_bytes());
    packet[6..8].copy_from_slice(&[next, 64]);
    packet[8..10].copy_from_slice(&[0x20, 0x01]);
    packet[23] = 1;
    packet[24..26].copy_from_slice(&[0xfe, 0x80]);
    packet[39] = 2;
    packet.extend_from_slice(payload);
    packet
}

fn ports(source: u16, destination: u16, rest: usize) -> Vec<u8> {
    let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let content = (0..rest).map(|at| u8::try_from(at * 7 % 251).expect("less than 251"));
    bytes.extend(content);
    bytes
}

/// Returns frames of 14 bytes and more.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let tcp = ports(40_000, 80, 36);
    let dns = ports(53, 5_353, 24);
    let icmp = [8_u8, 0, 0, 0, 0, 1, 0, 1].to_vec();
    let mut whole = vec![
        [ethernet(0x0800), ipv4(5, 0, 6, &tcp)].concat(),
        [
            ethernet(0x0800),
            ipv4(7, 0x4000, 6, &ports(443, 52_000, 60)),
        ]
        .concat(),
        [ethernet(0x0800), ipv4(5, 0, 17, &dns)].concat(),
        [ethernet(0x0800), ipv4(15, 0, 17, &dns)].concat(),
        [ethernet(0x0800), ipv4(0, 0, 17, &dns)].concat(),
        [ethernet(0x0800), ipv4(5, 0x2001, 17, &dns)].concat(),
        [ethernet(0x0800), ipv4(5, 0, 1, &icmp)].concat(),
        [ethernet(0x86dd), ipv6(6, &tcp)].concat(),
        [ethernet(0x86dd), ipv6(17, &dns)].concat(),
        [ethernet(0x86dd), ipv6(58, &[128, 0, 0, 0])].concat(),
        [
            ethernet(0x86dd),
            ipv6(44, &[&[6, 0, 0, 0, 0, 0, 0, 1], tcp.as_slice()].concat()),
        ]
        .concat(),
        [ethernet(0x8100), vec![0, 7, 8, 0], ipv4(5, 0, 6, &tcp)].concat(),
        [ethernet(0x8847), vec![0, 1, 0x11, 64], ipv4(5, 0, 6, &tcp)].concat(),
        [ethernet(0x0026), vec![0x42, 0x42, 3], vec![0; 40]].concat(),
    ];
    let mut arp = ethernet(0x0806);
    arp.extend([
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0,
    ]);
    arp.extend([192, 168, 1, 2]);
    whole.push(arp);
    let cuts = [
        14, 15, 16, 20, 23, 24, 33, 34, 37, 38, 53, 54, 55, 59, 60, 61,
    ];
    let cut = whole.iter().flat_map(|frame| {
        cuts.iter()
            .filter(|&&cut| cut < frame.len())
            .step_by(3)
            .map(|&cut| frame[..cut].to_vec())
    });
    let cut: Vec<_> = cut.collect();
    whole.extend(cut);
    whole.push(long(1_496));
    whole
}

/// Returns a frame whose content differs from byte to byte.
pub(crate) fn long(bytes: usize) -> Vec<u8> {
    let mut frame = [ethernet(0x0800), ipv4(5, 0, 17, &dns_like())].concat();
    frame.extend((frame.len()..bytes).map(|at| u8::try_from(at * 31 % 255 + 1).expect("1 to 255")));
    frame
}

fn dns_like() -> Vec<u8> {
    ports(53, 1_024, 16)
}
