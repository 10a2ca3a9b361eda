//! Hosts of a capture given other addresses, so that the same packets make other flows.

use ringtap_packet::ether_type;

/// Gives the hosts of an Ethernet frame the addresses of this repetition; repetition 0 changes nothing.
///
/// All packets of a host get the same address, so a conversation stays one. One half of an address gains
/// exactly as much as the other half loses, by the arithmetic of the Internet checksum (RFC 1071): all
/// checksums stay valid. Groups and unspecified addresses stay as they are, and so does what is inside a tunnel.
pub(super) fn vary(frame: &mut [u8], repetition: u16) {
    const TAGS: [u16; 2] = [ether_type::VLAN, ether_type::QINQ];
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 12;
    while kind(at).is_some_and(|kind| TAGS.contains(&kind)) {
        at += 4;
    }
    if repetition == 0 {
        return;
    }
    let header = at + 2;
    let addresses = match kind(at) {
        Some(ether_type::IPV4) => [header + 12..header + 16, header + 16..header + 20],
        Some(ether_type::IPV6) => [header + 8..header + 24, header + 24..header + 40],
        _ => return,
    };
    for range in addresses {
        if let Some(address) = frame.get_mut(range)
            && is_of_a_host(address)
        {
            move_host(address, repetition);
        }
    }
}

fn is_of_a_host(address: &[u8]) -> bool {
    let is_group = match address {
        [first, _, _, _] => *first >= 224,
        _ => address.first() == Some(&0xff),
    };
    !is_group && address.iter().any(|&byte| byte != 0)
}

/// Changes the last two words of an address.
fn move_host(address: &mut [u8], by: u16) {
    let Some([a, b, c, d]) = address.last_chunk_mut() else {
        return;
    };
    let high = add(u16::from_be_bytes([*a, *b]), by);
    let low = add(u16::from_be_bytes([*c, *d]), !by);
    [*a, *b] = high.to_be_bytes();
    [*c, *d] = low.to_be_bytes();
}

/// Adds as the Internet checksum does: what does not fit is added below.
fn add(word: u16, more: u16) -> u16 {
    let (sum, carried) = word.overflowing_add(more);
    sum + u16::from(carried)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|word| u16::from_be_bytes([word[0], word[1]]));
        // Zero has two forms in this arithmetic.
        words.fold(0, add) % u16::MAX
    }

    fn frame() -> Vec<u8> {
        let mut frame: Vec<u8> = (0..74).collect();
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 192, 168, 255, 254]);
        frame
    }

    #[test]
    fn checksums_stay_valid_and_hosts_differ() {
        let before = frame();
        let mut seen = std::collections::HashSet::new();
        for repetition in 0..200 {
            let mut after = before.clone();
            vary(&mut after, repetition);
            assert_eq!(sum(&after), sum(&before), "{repetition}");
            assert_eq!(after == before, repetition == 0);
            assert!(seen.insert(after[26..30].to_vec()), "{repetition}");
        }
    }

    #[test]
    fn both_directions_and_tagged_frames_get_the_same_hosts() {
        let mut there = frame();
        let mut back = frame();
        back[26..34].rotate_left(4);
        let mut tagged = frame();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        for frame in [&mut there, &mut back, &mut tagged] {
            vary(frame, 9);
        }
        assert_eq!(there[26..30], back[30..34]);
        assert_eq!(there[30..34], back[26..30]);
        assert_eq!(there[26..34], tagged[30..38]);
    }

    #[test]
    fn groups_and_short_frames_stay() {
        let mut group = frame();
        group[30..34].copy_from_slice(&[224, 0, 0, 251]);
        vary(&mut group, 3);
        assert_eq!(group[30..34], [224, 0, 0, 251]);
        for length in 0..34 {
            let mut short = frame()[..length].to_vec();
            vary(&mut short, 3);
            assert_eq!(short.get(30..), frame()[..length].get(30..));
        }
        let mut six = frame();
        six[12..14].copy_from_slice(&[0x86, 0xdd]);
        six[38] = 0xff;
        let before = six.clone();
        vary(&mut six, 3);
        assert_eq!(six[38..54], before[38..54]);
        assert_ne!(six[22..38], before[22..38]);
    }
}
