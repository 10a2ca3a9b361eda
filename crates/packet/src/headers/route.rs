//! Source routes: the offset of the address of a packet's last stop.
//!
//! Input: a routing header of IPv6, or the options of IPv4. Output: an offset in it.

/// The size of an address in bytes.
const V4: usize = 4;
const V6: usize = 16;
/// The size of the field in front of the addresses, after type and segments left.
const RESERVED: usize = 4;

/// The place of the last stop's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// In the packet's header: there are no stops, or none is left.
    Reached,
    /// At this offset.
    At(usize),
    /// The packet has a type of route that is not supported.
    Unknown,
}

/// Returns the last stop in a routing header of this type, with `left` segments left and `data` after these
/// fields (RFC 8200, section 4.4).
#[must_use]
pub fn last_stop(kind: u8, left: u8, data: &[u8]) -> Stop {
    if left == 0 {
        return Stop::Reached;
    }
    let addresses = data.len().saturating_sub(RESERVED) / V6;
    let at = match kind {
        // The source route (RFC 2460) and mobile IPv6 (RFC 6275, section 6.4).
        0 | 2 if addresses > 0 => RESERVED + (addresses - 1) * V6,
        // Segment routing, from the last segment to the first (RFC 8754, section 2).
        4 if addresses > 0 => RESERVED,
        _ => return Stop::Unknown,
    };
    Stop::At(at)
}

/// Returns the last stop in the options of IPv4 (RFC 791, section 3.1: loose and strict source
/// route).
#[must_use]
pub fn last_stop_v4(options: &[u8]) -> Stop {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match kind {
            0 => return Stop::Reached,
            1 => 1,
            _ => match options.get(at + 1) {
                Some(&len) if len >= 2 => usize::from(len),
                _ => return Stop::Reached,
            },
        };
        if matches!(kind, 131 | 137) {
            // The pointer counts from 1, and points after a route that is used up.
            let pointer = options
                .get(at + 2)
                .map_or(0, |&pointer| usize::from(pointer));
            return if len < 3 + V4 || at + len > options.len() {
                Stop::Unknown
            } else if pointer > len {
                Stop::Reached
            } else {
                Stop::At(at + len - V4)
            };
        }
        at += len;
    }
    Stop::Reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_headers_of_each_type() {
        let data = [0; 4 + 3 * 16];
        assert_eq!(last_stop(0, 0, &data), Stop::Reached);
        assert_eq!(last_stop(0, 3, &data), Stop::At(36));
        assert_eq!(last_stop(2, 1, &data[..20]), Stop::At(4));
        assert_eq!(last_stop(4, 2, &data), Stop::At(4));
        // RPL compresses addresses (RFC 6554); other types are unknown.
        assert_eq!(last_stop(3, 1, &data), Stop::Unknown);
        assert_eq!(last_stop(0, 1, &data[..12]), Stop::Unknown);
    }

    #[test]
    fn source_routes_of_ipv4() {
        let route = |pointer: u8| [1, 131, 11, pointer, 10, 0, 0, 1, 10, 0, 0, 2];
        assert_eq!(last_stop_v4(&route(4)), Stop::At(8));
        assert_eq!(last_stop_v4(&route(8)), Stop::At(8));
        assert_eq!(last_stop_v4(&route(12)), Stop::Reached);
        assert_eq!(last_stop_v4(&route(4)[..8]), Stop::Unknown);
        assert_eq!(last_stop_v4(&[0x94, 4, 0, 0, 0, 131]), Stop::Reached);
        assert_eq!(last_stop_v4(&[7, 0]), Stop::Reached);
    }
}
