//! An interface's own counters (`IFLA_STATS64`).

use super::Error;
use super::message::{Attribute, read_u64};

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// The 64-bit counters of an interface since it was created: sent, received and lost
        /// packets.
        ///
        /// Source: `struct rtnl_link_stats64`, `include/uapi/linux/if_link.h`. Drivers differ in
        /// the errors that they count.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)+
            /// Packets for other hosts, received in promiscuous mode and dropped by the IP layer.
            /// `None` before Linux 5.19.
            pub rx_otherhost_dropped: Option<u64>,
        }

        impl Counters {
            /// Returns the counters with their names in the kernel's structure, without those that
            /// this kernel lacks.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                let present = [$((stringify!($field), self.$field)),+];
                let last = self.rx_otherhost_dropped.map(|n| ("rx_otherhost_dropped", n));
                present.into_iter().chain(last)
            }

            fn from_words(mut next: impl FnMut() -> Option<u64>) -> Option<Self> {
                Some(Self {
                    $($field: next()?,)+
                    rx_otherhost_dropped: next(),
                })
            }
        }
    };
}

counters! {
    /// Packets received.
    rx_packets,
    /// Packets sent.
    tx_packets,
    /// Bytes received.
    rx_bytes,
    /// Bytes sent.
    tx_bytes,
    /// Damaged packets received, total.
    rx_errors,
    /// Packets that could not be sent, total.
    tx_errors,
    /// Packets received and dropped because memory or a receiver was missing.
    rx_dropped,
    /// Packets dropped instead of sent.
    tx_dropped,
    /// Multicast packets received.
    multicast,
    /// Collisions while sending.
    collisions,
    /// Received packets with an invalid length.
    rx_length_errors,
    /// Overruns of the adapter's receive ring.
    rx_over_errors,
    /// Received packets with a wrong checksum (CRC).
    rx_crc_errors,
    /// Received packets whose length is not a whole number of bytes.
    rx_frame_errors,
    /// Overruns of the adapter's receive memory.
    rx_fifo_errors,
    /// Packets that the adapter dropped because the host had provided no buffer.
    rx_missed_errors,
    /// Packets whose sending was aborted.
    tx_aborted_errors,
    /// Packets not sent because there was no carrier.
    tx_carrier_errors,
    /// Underruns of the adapter's send memory.
    tx_fifo_errors,
    /// Heartbeat missing after sending.
    tx_heartbeat_errors,
    /// Late collisions.
    tx_window_errors,
    /// Compressed packets received.
    rx_compressed,
    /// Compressed packets sent.
    tx_compressed,
    /// Packets received on an inactive port and dropped because nothing handles them.
    rx_nohandler,
}

impl Counters {
    pub(super) fn parse(attribute: &Attribute<'_>) -> Result<Self, Error> {
        let mut at = 0;
        let next = || {
            let word = read_u64(attribute.value, at);
            at += 8;
            word
        };
        Self::from_words(next).ok_or_else(|| attribute.malformed("IFLA_STATS64", 24 * 8))
    }
}
