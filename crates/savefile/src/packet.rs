//! The packet as every source hands it out: a borrowed view, never an owned copy.

/// A point in time: seconds and nanoseconds since 1970-01-01T00:00:00Z.
///
/// Kept as two fields, because that is what pcap records and the kernel's rings hold: reading and
/// writing them needs neither a multiplication nor a division.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    secs: i64,
    nanos: u32,
}

const NANOS_PER_SEC: u32 = 1_000_000_000;

impl Timestamp {
    /// A time from seconds since the epoch and nanoseconds; a fraction of a second or more (damaged
    /// files hold such) is carried into the seconds.
    #[inline]
    #[must_use]
    pub const fn new(secs: i64, nanos: u32) -> Self {
        if nanos < NANOS_PER_SEC {
            return Self { secs, nanos };
        }
        Self {
            secs: secs.saturating_add((nanos / NANOS_PER_SEC) as i64),
            nanos: nanos % NANOS_PER_SEC,
        }
    }

    /// Whole seconds since the epoch; negative before it.
    #[inline]
    #[must_use]
    pub const fn secs(self) -> i64 {
        self.secs
    }

    /// The fraction of the second, in nanoseconds, below 1,000,000,000.
    #[inline]
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        self.nanos
    }

    /// Nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> i128 {
        self.secs as i128 * NANOS_PER_SEC as i128 + self.nanos as i128
    }

    /// A time from nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the remainder is at least 0 and below 1,000,000,000"
        )]
        Self {
            secs: nanos.div_euclid(NANOS_PER_SEC as i64),
            nanos: nanos.rem_euclid(NANOS_PER_SEC as i64) as u32,
        }
    }
}

/// The `epb_flags` word of pcapng (draft-ietf-opsawg-pcapng, section 4.3.1); 0 where nothing is
/// known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketFlags(pub u32);

impl PacketFlags {
    /// Received by the host.
    pub const INBOUND: Self = Self(1);
    /// Sent by the host.
    pub const OUTBOUND: Self = Self(2);
}

/// One captured packet, borrowed from the ring or the file that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it was captured.
    pub timestamp: Timestamp,
    /// Its length on the wire in bytes; `data.len()` is the captured part (caplen). Damaged files
    /// may state less than was captured.
    pub len: u32,
    /// Index into the interfaces of the source, counted over all sections of a file.
    pub interface: u32,
    /// Direction and reception type, where known.
    pub flags: PacketFlags,
    /// The captured bytes, beginning with the link-layer header.
    pub data: &'a [u8],
}
