//! BSD loopback, and IPsec interfaces: a 4-byte address family before the IP header.

use super::ethertype as et;
use super::{EtherProto, HeaderOffsets, LinkLayer, equals};
use crate::CompileOptions;
use crate::ir::{Condition, Size, Values};

/// `AF_INET`, which is the same on all systems.
const AF_INET: u32 = 2;
/// `AF_INET6` of Linux.
const AF_INET6: [u32; 1] = [10];
/// `AF_INET6` of the systems that write this header: macOS, the other BSDs, FreeBSD.
const AF_INET6_IN_FILES: [u32; 3] = [30, 24, 28];

pub(super) struct Loopback {
    name: &'static str,
    payload: u32,
    /// Whether the family is byte-swapped when loaded in network order.
    little_endian: bool,
    /// The numbers of IPv6.
    inet6: &'static [u32],
}

impl Loopback {
    /// Returns the header in the byte order of the capturing host.
    pub(super) fn null(options: &CompileOptions) -> Self {
        Self {
            name: "BSD loopback",
            payload: 4,
            little_endian: cfg!(target_endian = "little") != options.swapped,
            inet6: inet6(options),
        }
    }

    /// Returns OpenBSD's interface of IPsec packets: the family in the byte order of the host, then
    /// security parameter index and flags.
    pub(super) fn enc(options: &CompileOptions) -> Self {
        Self {
            name: "OpenBSD enc",
            payload: 12,
            ..Self::null(options)
        }
    }

    /// Returns the header in network byte order.
    pub(super) fn network_order(options: &CompileOptions) -> Self {
        Self {
            name: "OpenBSD loopback",
            payload: 4,
            little_endian: false,
            inet6: inet6(options),
        }
    }
}

fn inet6(options: &CompileOptions) -> &'static [u32] {
    if options.from_file {
        &AF_INET6_IN_FILES
    } else {
        &AF_INET6
    }
}

impl LinkLayer for Loopback {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(0, self.payload)
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let families: &[u32] = match proto {
            et::IP => &[AF_INET],
            et::IP6 => self.inet6,
            _ => return Condition::Constant(false),
        };
        let mut is_any = Condition::Constant(false);
        for family in families {
            let family = if self.little_endian {
                family.swap_bytes()
            } else {
                *family
            };
            is_any = is_any.or(equals(values, Size::Word, place.type_field, family));
        }
        is_any
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, LinkType, Tables, compile};

    /// libpcap 1.10.3 compiles `ip6` in this way for such files and for a device.
    #[test]
    fn files_have_the_address_families_of_all_systems() {
        let mut options = CompileOptions::new(LinkType::NULL);
        options.swapped = cfg!(target_endian = "big");
        let accepts = |options: &CompileOptions, family: u8| {
            let program = compile("ip6", options, &Tables::new()).expect("a filter");
            program.run(&[family, 0, 0, 0, 0x60], 5) != 0
        };
        let families = [2, 10, 24, 28, 30];
        assert_eq!(
            families.map(|family| accepts(&options, family)),
            [false, true, false, false, false]
        );
        options.from_file = true;
        assert_eq!(
            families.map(|family| accepts(&options, family)),
            [false, false, true, true, true]
        );
        options.swapped = !options.swapped;
        assert!(!accepts(&options, 30));
    }
}
