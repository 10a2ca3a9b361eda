//! An interface's own counters (`IFLA_STATS64`).

use super::Error;
use super::message::{Attribute, read_u64};

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// What an interface has sent, received and lost since it was made, in 64 bits.
        ///
        /// Source: `struct rtnl_link_stats64`, `include/uapi/linux/if_link.h`; drivers differ in
        /// which of the errors they fill in.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)+
            /// Received frames for other hosts, dropped by the IP layer (promiscuous mode); packets.
            /// `None` before Linux 5.19.
            pub rx_otherhost_dropped: Option<u64>,
        }

        /// Name and value of each counter, in the order of the kernel's structure.
        impl Counters {
            /// The counters with their names as the kernel's structure has them; one that this
            /// kernel lacks is absent.
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
    /// Damaged packets received, all kinds together.
    rx_errors,
    /// Packets that could not be sent, all kinds together.
    tx_errors,
    /// Packets received and dropped for want of memory or of somebody who wants them.
    rx_dropped,
    /// Packets dropped instead of sent.
    tx_dropped,
    /// Multicast packets received.
    multicast,
    /// Collisions while sending.
    collisions,
    /// Received packets of an impossible length.
    rx_length_errors,
    /// Overruns of the adapter's receive ring.
    rx_over_errors,
    /// Received packets with a wrong check sequence.
    rx_crc_errors,
    /// Received packets that do not end at a byte.
    rx_frame_errors,
    /// Overruns of the adapter's receive memory.
    rx_fifo_errors,
    /// Packets that the adapter missed, because the host had given it no buffer.
    rx_missed_errors,
    /// Sending given up.
    tx_aborted_errors,
    /// Sending without carrier.
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
    /// Packets received on an inactive port, for which nobody was responsible.
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
