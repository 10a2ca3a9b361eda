//! IPFIX (RFC 7011): its header and its templates.

use super::element::Element;
use super::options::OptionsRecord;
use super::session::{Clock, Protocol, latest};
use super::template::Dialect;
use super::{ExportOptions, count, saturate};
use crate::FlowRecord;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The scope of options: `observationDomainId` (149), in 4 bytes.
const SCOPE: Element = Element {
    id: 149,
    enterprise: 0,
    length: 4,
};

#[derive(Debug, Default)]
pub(crate) struct Ipfix;

impl Protocol for Ipfix {
    const HEADER: usize = 16;
    const ALIGNMENT: usize = 1;
    const TEMPLATE_SET: u16 = 2;
    const OPTIONS_TEMPLATE_SET: u16 = 3;

    fn dialect(options: &ExportOptions) -> Dialect {
        Dialect::Ipfix {
            nanos: options.nanos,
            enterprise: options.enterprise,
        }
    }

    fn fits_clock(&mut self, _record: &FlowRecord, _now_ns: u64, _empty: bool) -> Clock {
        Clock::Fits
    }

    fn time_of_message(record: &FlowRecord, now_ns: u64) -> u64 {
        latest(record).max(now_ns)
    }

    fn boot_ms(&self) -> u64 {
        0
    }

    fn seal(&self, message: &mut [u8], _records: u16, data_records: u16, now_ns: u64) -> u16 {
        let length = count(message.len());
        let seconds = saturate(now_ns / NANOS_PER_SECOND);
        message[..2].copy_from_slice(&10u16.to_be_bytes());
        message[2..4].copy_from_slice(&length.to_be_bytes());
        message[4..8].copy_from_slice(&seconds.to_be_bytes());
        // Data records before this message are counted, options among them (section 3.1).
        data_records
    }

    fn put_options_template(record: &OptionsRecord, out: &mut Vec<u8>) {
        out.extend_from_slice(&record.id.to_be_bytes());
        let fields = count(1 + record.values.len());
        out.extend_from_slice(&fields.to_be_bytes());
        out.extend_from_slice(&1u16.to_be_bytes());
        SCOPE.put(out);
        for (element, _) in &record.values {
            element.put(out);
        }
    }
}
