//! IPFIX (RFC 7011): its header and its templates.

use super::element::{Column, Element};
use super::options::OptionsRecord;
use super::session::{Clock, Protocol, latest};
use super::template::{Dialect, Template};
use super::{Enterprise, ExportOptions, count, saturate};
use crate::FlowRecord;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The bit of an element's number that announces an enterprise number.
const ENTERPRISE_BIT: u16 = 1 << 15;
/// The scope of options: `observationDomainId` (149), in 4 bytes.
const SCOPE: Element = Element {
    id: 149,
    enterprise: 0,
    length: 4,
};

#[derive(Debug)]
pub(crate) struct Ipfix {
    domain: u32,
    sequence: u32,
    nanos: bool,
    enterprise: Enterprise,
}

impl Protocol for Ipfix {
    const HEADER: usize = 16;
    const ALIGNMENT: usize = 1;
    const TEMPLATE_SET: u16 = 2;
    const OPTIONS_TEMPLATE_SET: u16 = 3;

    fn new(options: &ExportOptions) -> Self {
        Self {
            domain: options.domain,
            sequence: 0,
            nanos: options.nanos,
            enterprise: options.enterprise,
        }
    }

    fn dialect(&self) -> Dialect {
        Dialect::Ipfix {
            nanos: self.nanos,
            enterprise: self.enterprise,
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

    fn seal(&mut self, message: &mut [u8], _records: u16, data_records: u16, now_ns: u64) {
        let length = count(message.len());
        let seconds = saturate(now_ns / NANOS_PER_SECOND);
        let header = &mut message[..Self::HEADER];
        header[..2].copy_from_slice(&10u16.to_be_bytes());
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[4..8].copy_from_slice(&seconds.to_be_bytes());
        header[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        header[12..].copy_from_slice(&self.domain.to_be_bytes());
        // Data records before this message are counted, options among them (section 3.1).
        self.sequence = self.sequence.wrapping_add(data_records.into());
    }

    fn restart(&mut self) {
        self.sequence = 0;
    }

    fn put_template(template: &Template, out: &mut Vec<u8>) {
        out.extend_from_slice(&template.id.to_be_bytes());
        let fields = count(template.columns.len());
        out.extend_from_slice(&fields.to_be_bytes());
        for element in template.columns.iter().copied().map(Column::element) {
            put_element(element, out);
        }
    }

    fn put_options_template(record: &OptionsRecord, out: &mut Vec<u8>) {
        out.extend_from_slice(&record.id.to_be_bytes());
        let fields = count(1 + record.values.len());
        out.extend_from_slice(&fields.to_be_bytes());
        out.extend_from_slice(&1u16.to_be_bytes());
        put_element(SCOPE, out);
        for &(element, _) in &record.values {
            put_element(element, out);
        }
    }

    fn put_scope(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.domain.to_be_bytes());
    }
}

fn put_element(element: Element, out: &mut Vec<u8>) {
    if element.enterprise == 0 {
        out.extend_from_slice(&element.id.to_be_bytes());
        out.extend_from_slice(&element.length.to_be_bytes());
    } else {
        out.extend_from_slice(&(element.id | ENTERPRISE_BIT).to_be_bytes());
        out.extend_from_slice(&element.length.to_be_bytes());
        out.extend_from_slice(&element.enterprise.to_be_bytes());
    }
}
