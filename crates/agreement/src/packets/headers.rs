//! Link-layer headers for generated packets: one or two for each payload, in various forms.

use super::made::{ethernet_headers, ppp};

/// Returns the headers before a payload of this EtherType (or LLC service access point) on a link
/// type, given by DLT. `at` counts payloads, so that their forms vary.
pub(super) fn headers(dlt: u32, ether_type: u16, payload: usize, at: usize) -> Vec<Vec<u8>> {
    let et = ether_type.to_be_bytes();
    match dlt {
        6 => vec![[&[0x10, 0x40][..], addresses(at), &snap(ether_type)].concat()],
        10 => vec![[&[0x50][..], addresses(at), &snap(ether_type)].concat()],
        11 | 19 => vec![snap(ether_type)],
        122 => {
            let (dst, src) = addresses(at).split_at(6);
            vec![[&[0x10, 0][..], dst, &[0x10, 0], src, &snap(ether_type)].concat()]
        }
        123 => sun_atm(ether_type, payload, at),
        7 | 129 => arcnet(dlt, ether_type, at),
        8 | 15 => slip(dlt, ether_type, at),
        16 => vec![bsd_os_ppp(ether_type, at)],
        166 => vec![[&[at_mod(at, 3), 3][..], &ppp(ether_type)].concat()],
        99 => vec![[&[0, 0, 0, 0, 0, 1][..], &et, &[9; 36]].concat()],
        138 => vec![[&[7; 16][..], &et].concat()],
        104 => vec![cisco(ether_type)],
        107 => vec![frame_relay(ether_type)],
        109 => vec![[&family(ether_type).to_ne_bytes()[..], &[1; 8]].concat()],
        114 => vec![vec![]],
        117 => pf_log(ether_type, at),
        226 => vec![ipnet(ether_type, at)],
        281 | 284 => ethernet_with_tag(ether_type, payload, at),
        240 => ethernet_behind(4, ether_type, payload, at),
        241 => ethernet_behind(12, ether_type, payload, at),
        105 | 119 | 127 | 163 | 192 => wlan(dlt, ether_type, at),
        130..=137 | 164 | 167 | 168 | 178..=181 | 183 | 194 | 200 | 232..=234 | 238 => {
            vec![juniper(dlt, at)]
        }
        165 => vec![vec![
            0x55,
            0xff,
            5,
            [0xff, 5, 1][at % 3],
            [5, 1][at % 2],
            0,
            0,
            1,
        ]],
        139 => vec![signal_unit(4, at)],
        140 => vec![signal_unit(0, at)],
        197 => vec![signal_unit(20, at)],
        _ => vec![Vec::new()],
    }
}

fn at_mod(at: usize, modulus: usize) -> u8 {
    u8::try_from(at % modulus).expect("a small modulus")
}

/// Returns destination and source.
fn addresses(at: usize) -> &'static [u8] {
    [
        &[6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 8, 9, 10, 11, 12],
        &[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6],
        &[1, 0, 0x5e, 0, 0, 5, 6, 5, 4, 3, 2, 1],
    ][at % 4]
}

/// Returns the LLC and SNAP headers of an EtherType; nothing if the payload begins with its LLC
/// header.
fn snap(ether_type: u16) -> Vec<u8> {
    let organisation: &[u8] = match ether_type {
        0..=1500 => return Vec::new(),
        0x809b => &[8, 0, 7],
        _ => &[0, 0, 0],
    };
    [&[0xaa, 0xaa, 3], organisation, &ether_type.to_be_bytes()].concat()
}

/// Returns the address family of a payload, by Linux's numbers.
pub(super) fn family(ether_type: u16) -> u32 {
    match ether_type {
        0x0800 => 2,
        0x86dd => 10,
        other => u32::from(other),
    }
}

fn arcnet(dlt: u32, ether_type: u16, at: usize) -> Vec<Vec<u8>> {
    let codes: &[u8] = match ether_type {
        0x0800 => &[0xd4, 0xf0],
        0x0806 => &[0xd5, 0xf1],
        0x8035 => &[0xd6],
        0x86dd => &[0xc4],
        0x809b => &[0xdd],
        _ => &[0x01],
    };
    let code = codes[at % codes.len()];
    let destination = [0, 5, 1][at % 3];
    vec![match dlt {
        7 => vec![1, destination, code, 0, 0, 1],
        _ => vec![1, destination, 0, 0, code, 0, 0, 1],
    }]
}

fn slip(dlt: u32, ether_type: u16, at: usize) -> Vec<Vec<u8>> {
    let len = if dlt == 8 { 16 } else { 24 };
    let version = if ether_type == 0x86dd { 0x60 } else { 0x45 };
    let mut header = vec![version; len];
    header[0] = [0, 1, version][at % 3];
    vec![header]
}

fn bsd_os_ppp(ether_type: u16, at: usize) -> Vec<u8> {
    let protocol = match (ether_type, at % 3) {
        (0x0800, 1) => [0, 0x2d],
        (0x0800, 2) => [0, 0x2f],
        _ => ppp(ether_type),
    };
    let mut header = vec![0xff, 3, 0, 0, 0];
    header.extend(protocol);
    header.resize(24, 1);
    header
}

fn cisco(ether_type: u16) -> Vec<u8> {
    let (protocol, more): (u16, &[u8]) = match ether_type {
        // The payload has no LLC header, only a byte before the OSI header.
        0xfe => (0xfefe, &[0]),
        other => (other, &[]),
    };
    [&[0x0f, 0][..], &protocol.to_be_bytes(), more].concat()
}

fn frame_relay(ether_type: u16) -> Vec<u8> {
    let identifier = match ether_type {
        0x0800 => 0xcc,
        0x86dd => 0x8e,
        0xfe => 0x83,
        0x0806 => 0x81,
        0x8035 => 0x82,
        _ => 0x80,
    };
    vec![0x18, 0x41, 3, identifier]
}

/// Returns a header of 61, 64 or 4 bytes before the padding.
fn pf_log(ether_type: u16, at: usize) -> Vec<Vec<u8>> {
    let family = match ether_type {
        0x0800 => 2,
        0x86dd => 10,
        _ => 24,
    };
    let len = [61, 64, 45][at % 3];
    let mut header = vec![0; 72];
    header[..4].copy_from_slice(&[len, family, at_mod(at, 11), at_mod(at, 16)]);
    let interface: &[u8] = [&b"eth0"[..], b"a", b"abcdefghijklmno", b"em1"][at % 4];
    header[4..4 + interface.len()].copy_from_slice(interface);
    let rules: &[u8] = [&b"abc"[..], b"abcdefghijklmno", b""][at % 3];
    header[20..20 + rules.len()].copy_from_slice(rules);
    header[39] = at_mod(at, 7);
    header[43] = at_mod(at, 4);
    header[60] = at_mod(at, 3);
    header.truncate(usize::from(len).next_multiple_of(4));
    vec![header]
}

fn ipnet(ether_type: u16, at: usize) -> Vec<u8> {
    let family = match ether_type {
        0x0800 => 2,
        0x86dd => 26,
        _ => 9,
    };
    let mut header = vec![1, family, 0, at_mod(at, 3)];
    header.resize(24, 1);
    header
}

fn ethernet_behind(before: usize, ether_type: u16, payload: usize, at: usize) -> Vec<Vec<u8>> {
    let frames = ethernet_headers(ether_type, payload);
    let frame = &frames[at % frames.len()];
    vec![[&vec![0x0a; before][..], frame].concat()]
}

/// Returns a switch's tag between addresses and type, with the operation or mode in its first byte.
fn ethernet_with_tag(ether_type: u16, payload: usize, at: usize) -> Vec<Vec<u8>> {
    const ADDRESSES: usize = 12;
    let operations = [0x00, 0x20, 0x40, 0x60, 0x80, 0xc0, 0xe0];
    let tag = [operations[at % operations.len()], 0, 0x10, 1];
    let with_tag = |frame: &Vec<u8>| {
        let (addresses, rest) = frame.split_at(ADDRESSES);
        [addresses, &tag, rest].concat()
    };
    ethernet_headers(ether_type, payload)
        .iter()
        .map(with_tag)
        .collect()
}

fn juniper(dlt: u32, at: usize) -> Vec<u8> {
    let len = match dlt {
        130 | 131 | 134 | 137 | 179..=181 => 4,
        135 => 8,
        133 | 164 => 12,
        167 | 178 => 32,
        _ => 6,
    };
    let mut header = vec![0x4d, 0x47, 0x43, at_mod(at, 4)];
    header.resize(len, 0x80);
    if at % 17 == 16 {
        header[1] = 0;
    }
    header
}

fn signal_unit(before: usize, at: usize) -> Vec<u8> {
    let length = [0, 1, 2, 3, 0x3f, 0x40, 0x12][at % 7];
    let long = [0, 0x80, 0x01, 0x07, 0xff][at % 5];
    let label = [5, 0x40, 1, 0x30, 7, 0, 0xc0, 0xff, 3, 0x55][at % 10];
    let mut bytes = vec![0x80; before];
    bytes.extend([0x81, 0x82, length, [5, 0, 1, 0xff][at % 4]]);
    bytes.extend([at_mod(at, 2), long, [5, 1][at % 2], 0x40, 1, 0x50, label, 1]);
    bytes
}

/// Returns the four bytes before the frame, then LLC, an emulated Ethernet, or a signalling
/// message.
fn sun_atm(ether_type: u16, payload: usize, at: usize) -> Vec<Vec<u8>> {
    let path = [0, 1, 5][at % 3];
    let channel = [1_u16, 2, 3, 4, 5, 16, 100][at % 7].to_be_bytes();
    let header = |kind: u8| [&[kind, path][..], &channel].concat();
    let frames = ethernet_headers(ether_type, payload);
    let client = [0, 0xff][usize::from(at % 5 == 4)];
    let lane = [&header(0x11)[..], &[client, 0], &frames[at % frames.len()]].concat();
    let message = [0x5a, 0x4d, 0x0f, 7, 5, 2, 9][at % 7];
    let signalling = [&header(6)[..], &[9, 3, 0, 0, 1, message]].concat();
    vec![
        [&header(0x82)[..], &snap(ether_type)].concat(),
        lane,
        signalling,
    ]
}

/// Returns 802.11 frames of every kind, after the header of the link type.
fn wlan(dlt: u32, ether_type: u16, at: usize) -> Vec<Vec<u8>> {
    let data: [u8; 5] = [0x08, 0x88, 0xa8, 0x48, 0x28];
    let control = [0x84, 0xa4, 0xb4, 0xc4, 0xd4, 0xe4, 0xf4];
    let management = [0x80, 0x00, 0x10, 0x40, 0x50, 0xb0, 0xc0, 0xa0, 0x90];
    let flags = [0x00, 0x01, 0x02, 0x03, 0x42][at / 5 % 5];
    let mut frames = vec![frame(data[at % 5], flags, at)];
    if at.is_multiple_of(3) {
        frames.push(frame(control[at / 3 % 7], flags, at));
        frames.push(frame(management[at / 3 % 9], flags, at));
        frames.push(frame(0x0c | 0x80, flags, at));
    }
    let mut list = Vec::new();
    for (frame, variant) in frames.iter().zip(at..) {
        let before = report(dlt, variant);
        let padding = match dlt == 127 && is_padded(&before) {
            true => (before.len() + frame.len()).next_multiple_of(4) - before.len() - frame.len(),
            false => 0,
        };
        list.push([&before[..], frame, &vec![0; padding], &snap(ether_type)].concat());
    }
    list
}

fn frame(control: u8, flags: u8, at: usize) -> Vec<u8> {
    let addresses: [[u8; 6]; 4] = [
        [1, 2, 3, 4, 5, 6],
        [6, 5, 4, 3, 2, 1],
        [0xff; 6],
        [1, 0, 0x5e, 0, 0, 5],
    ];
    let mut bytes = vec![control, flags, 0, 0];
    for n in 0..3 {
        bytes.extend(addresses[(at + n) % 4]);
    }
    let no_second = matches!(control, 0xc4 | 0xd4);
    if no_second && at.is_multiple_of(2) {
        bytes.truncate(10);
        return bytes;
    }
    bytes.extend([0x10, 0]);
    if flags & 3 == 3 && at % 2 == 1 {
        bytes.extend(addresses[(at + 3) % 4]);
    }
    if control & 0x8c == 0x88 {
        bytes.extend([0, 0]);
    }
    bytes
}

/// Returns the header before the frame.
fn report(dlt: u32, at: usize) -> Vec<u8> {
    match dlt {
        119 if at % 3 == 2 => avs(),
        119 => [&[0, 0, 0, 0x44, 0, 0, 0, 144][..], &[1; 136]].concat(),
        163 => avs(),
        192 => {
            let (len, link_type) = [(8, 105), (32, 105), (20, 1), (8, 105)][at % 4];
            let mut header = vec![0, 0, len, 0, link_type, 0, 0, 0];
            header.resize(usize::from(len), 2);
            header
        }
        127 => radiotap(at),
        _ => Vec::new(),
    }
}

fn avs() -> Vec<u8> {
    [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[0; 56]].concat()
}

/// Returns a radiotap header: without fields, with flags, with a timestamp before the flags, or
/// with a second bitmap word; padded or not; of odd length; and with a wrong length.
fn radiotap(at: usize) -> Vec<u8> {
    let padded = if at.is_multiple_of(2) { 0x20 } else { 0x10 };
    let (present, fields): (u32, Vec<u8>) = match at % 6 {
        0 => (0, vec![]),
        1 | 2 => (2, vec![padded]),
        3 => (3, vec![padded; 9]),
        4 => (0x8000_0002, vec![0, 0, 0, 0, padded]),
        _ => (0x0000_482f, vec![padded; 17]),
    };
    let len = u8::try_from(8 + fields.len()).expect("few fields");
    let mut header = vec![0, 0, len, 0];
    if at % 23 == 22 {
        header[3] = 0x40;
    }
    header.extend(present.to_le_bytes());
    header.extend(fields);
    header
}

fn is_padded(radiotap: &[u8]) -> bool {
    let flags = match radiotap[4] & 3 {
        2 => 8,
        3 => 16,
        _ => return false,
    };
    radiotap[7] & 0x80 == 0 && radiotap.get(flags).is_some_and(|flags| flags & 0x20 != 0)
}
