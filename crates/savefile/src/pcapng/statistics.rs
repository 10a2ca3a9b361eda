//! Interface statistics blocks (draft-ietf-opsawg-pcapng, section 4.6).

use crate::pcapng::options::{RawOptions, code, encode, encode_end};
use crate::pcapng::section::finish_block;
use crate::pcapng::{InterfaceTable, Options, RawBlock, block_type};
use crate::resolution::Clock;
use crate::{ByteOrder, Timestamp};

/// Bytes of the body before its options: interface and timestamp.
const FIXED: usize = 12;

/// The counters of an interface, in the file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics<'a> {
    block: RawBlock<'a>,
    /// Index of the interface, counted over all sections.
    interface: u32,
    clock: Clock,
    ticks: u64,
}

/// The counters of an interface; `None` for an unknown count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceStatistics {
    /// Index of the interface, counted over all sections.
    pub interface: u32,
    /// The time when the counters were read.
    pub timestamp: Timestamp,
    /// The time when the capture began.
    pub start: Option<Timestamp>,
    /// The time when the capture ended.
    pub end: Option<Timestamp>,
    /// Packets received by the interface (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets dropped by the interface because resources were missing (`isb_ifdrop`).
    pub dropped_by_interface: Option<u64>,
    /// Packets that the filter accepted (`isb_filteraccept`).
    pub accepted_by_filter: Option<u64>,
    /// Packets dropped by the operating system (`isb_osdrop`).
    pub dropped_by_os: Option<u64>,
    /// Packets delivered to the user (`isb_usrdeliv`).
    pub delivered: Option<u64>,
    /// All other options, raw.
    pub other: RawOptions,
}

impl InterfaceStatistics {
    /// Creates statistics without any counter.
    #[must_use]
    pub fn new(interface: u32, timestamp: Timestamp) -> Self {
        Self {
            interface,
            timestamp,
            start: None,
            end: None,
            received: None,
            dropped_by_interface: None,
            accepted_by_filter: None,
            dropped_by_os: None,
            delivered: None,
            other: RawOptions::default(),
        }
    }

    /// Appends the block; `interface` is the number in the section.
    pub(crate) fn encode(&self, interface: u32, clock: Clock, order: ByteOrder, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&order.of_u32(block_type::STATISTICS));
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&order.of_u32(interface));
        out.extend_from_slice(&split_ticks(clock.ticks(self.timestamp), order));
        let options = out.len();
        let times = [
            (code::ISB_STARTTIME, self.start),
            (code::ISB_ENDTIME, self.end),
        ];
        for (code, time) in times {
            if let Some(time) = time {
                encode(code, &split_ticks(clock.ticks(time), order), order, out);
            }
        }
        let counts = [
            (code::ISB_IFRECV, self.received),
            (code::ISB_IFDROP, self.dropped_by_interface),
            (code::ISB_FILTERACCEPT, self.accepted_by_filter),
            (code::ISB_OSDROP, self.dropped_by_os),
            (code::ISB_USRDELIV, self.delivered),
        ];
        for (code, count) in counts {
            if let Some(count) = count {
                encode(code, &order.of_u64(count), order, out);
            }
        }
        self.other.encode(order, out);
        encode_end(options, out);
        finish_block(start, order, out);
    }
}

impl<'a> Statistics<'a> {
    /// Parses the block's fixed part. Returns `None` if it is too short, or if the section does not
    /// describe its interface; the block is then passed on raw.
    pub(crate) fn parse(block: RawBlock<'a>, interfaces: &InterfaceTable) -> Option<Self> {
        let order = block.byte_order();
        let interface = order.u32_at(block.body(), 0)?;
        Some(Self {
            block,
            interface: interfaces.first().saturating_add(interface),
            clock: interfaces.clock(interface)?,
            ticks: joined_ticks(block.body().get(4..)?, order)?,
        })
    }

    /// Returns the index of the interface, counted over all sections.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Returns the counters; if an option is repeated, the last one counts.
    #[must_use]
    pub fn counters(&self) -> InterfaceStatistics {
        let order = self.block.byte_order();
        let clock = self.clock;
        let mut counters = InterfaceStatistics::new(self.interface, clock.timestamp(self.ticks));
        counters.other = RawOptions::new(order);
        for option in &self.options() {
            let count = order.u64_at(option.value, 0);
            let time = joined_ticks(option.value, order).map(|ticks| clock.timestamp(ticks));
            match option.code {
                code::ISB_STARTTIME if time.is_some() => counters.start = time,
                code::ISB_ENDTIME if time.is_some() => counters.end = time,
                code::ISB_IFRECV if count.is_some() => counters.received = count,
                code::ISB_IFDROP if count.is_some() => counters.dropped_by_interface = count,
                code::ISB_FILTERACCEPT if count.is_some() => counters.accepted_by_filter = count,
                code::ISB_OSDROP if count.is_some() => counters.dropped_by_os = count,
                code::ISB_USRDELIV if count.is_some() => counters.delivered = count,
                other => counters.other.push(other, option.value),
            }
        }
        counters
    }

    /// Returns the block as it is in the file.
    #[must_use]
    pub fn block(&self) -> RawBlock<'a> {
        self.block
    }

    /// Returns all options as they are in the file.
    #[must_use]
    pub fn options(&self) -> Options<'a> {
        self.block.options_at(FIXED)
    }
}

/// Splits ticks into pcapng's two 32-bit numbers, the upper half first in either byte order.
pub(crate) fn split_ticks(ticks: u64, order: ByteOrder) -> [u8; 8] {
    let [h0, h1, h2, h3, l0, l1, l2, l3] = ticks.to_be_bytes();
    let [a, b, c, d] = order.of_u32(u32::from_be_bytes([h0, h1, h2, h3]));
    let [e, f, g, h] = order.of_u32(u32::from_be_bytes([l0, l1, l2, l3]));
    [a, b, c, d, e, f, g, h]
}

fn joined_ticks(bytes: &[u8], order: ByteOrder) -> Option<u64> {
    let high = order.u32_at(bytes, 0)?;
    let low = order.u32_at(bytes, 4)?;
    Some(u64::from(high) << 32 | u64::from(low))
}
