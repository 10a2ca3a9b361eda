//! Options: the data that an exporter sends about itself, besides flows.

use super::ExportCounters;
use super::element::Element;
use crate::Sampling;

/// Template of the sampling options.
const SAMPLING_ID: u16 = 256;
/// Template of the statistics.
const STATISTICS_ID: u16 = 257;

/// The statistics that the metering and exporting process sends about itself (RFC 7011, section 4, and the
/// same fields of NetFlow v9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Active timeout in seconds (36).
    pub active_timeout: u16,
    /// Inactive timeout in seconds (37).
    pub idle_timeout: u16,
    /// Flows metered (163).
    pub observed_flows: u64,
    /// Packets seen but not metered: without IP, or not decodable (164).
    pub ignored_packets: u64,
    /// Flow records that could not be sent (166).
    pub not_sent_flows: u64,
}

/// One options record with its template. The scope is the whole exporter.
#[derive(Clone, Debug)]
pub(crate) struct OptionsRecord {
    pub(crate) id: u16,
    pub(crate) values: Vec<(Element, u64)>,
}

const fn iana(id: u16, length: u16) -> Element {
    Element {
        id,
        enterprise: 0,
        length,
    }
}

impl OptionsRecord {
    /// Returns the record of the sampling interval (34), alone in its template.
    ///
    /// nfdump 1.7.1 does not find the interval beside the algorithm (35) or a selector (302, 304). nfdump
    /// 1.7.5 finds it in NetFlow v9 only beside the algorithm, so the statistics contain it again. goflow2
    /// takes the packet interval of PSAMP (305), which is 1, for the sampling interval.
    pub(crate) fn sampling(sampling: Sampling) -> Self {
        Self {
            id: SAMPLING_ID,
            values: vec![(iana(34, 4), sampling.one_in.get().into())],
        }
    }

    /// Returns the record of the other options, with both elements of the sampling.
    pub(crate) fn statistics(
        sampling: Sampling,
        statistics: &Statistics,
        sent: &ExportCounters,
    ) -> Self {
        Self {
            id: STATISTICS_ID,
            values: vec![
                (iana(34, 4), sampling.one_in.get().into()),
                (iana(35, 1), sampling.mode as u64),
                (iana(36, 2), statistics.active_timeout.into()),
                (iana(37, 2), statistics.idle_timeout.into()),
                (iana(40, 8), sent.bytes),
                (iana(41, 8), sent.messages),
                (iana(42, 8), sent.flows),
                (iana(163, 8), statistics.observed_flows),
                (iana(164, 8), statistics.ignored_packets),
                (iana(166, 8), statistics.not_sent_flows),
            ],
        }
    }

    /// Appends the values, each in the length of its element.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for &(element, value) in &self.values {
            let bytes = value.to_be_bytes();
            out.extend_from_slice(&bytes[bytes.len() - usize::from(element.length)..]);
        }
    }
}
