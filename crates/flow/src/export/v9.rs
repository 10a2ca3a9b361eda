//! NetFlow v9 (RFC 3954): its header, its templates and its clock.
//!
//! Times are milliseconds of the exporter's uptime in 32 bits. The header contains the uptime at a whole
//! second, rounded up, so that no flow is later than its message. The uptime follows the packets' clock, not
//! the machine's. It starts an hour before the first flow that is exported. If a flow is earlier still, or 49
//! days later, uptime starts again, as if the exporter had been restarted.

use super::element::uptime;
use super::options::OptionsRecord;
use super::session::{Clock, Protocol, latest};
use super::template::Dialect;
use super::{ExportOptions, count, saturate};
use crate::FlowRecord;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
/// The start of uptime before the first flow.
const MARGIN_MS: u64 = 3_600_000;
/// The longest time in 32 bits.
const SPAN_MS: u64 = u32::MAX as u64;
/// Scope field type "System", with a value of 4 bytes.
const SCOPE_SYSTEM: [u8; 4] = [0, 1, 0, 4];

#[derive(Debug, Default)]
pub(crate) struct V9 {
    uptime: Uptime,
}

/// The clock of NetFlow v5 and v9.
#[derive(Debug, Default)]
pub(crate) struct Uptime {
    boot_ms: Option<u64>,
}

impl Uptime {
    /// Returns the time at which uptime is 0, in milliseconds since 1970.
    pub(crate) fn boot_ms(&self) -> u64 {
        self.boot_ms.unwrap_or_default()
    }

    /// Makes room for a record's times, unless that changes the times of earlier records in the same message.
    pub(crate) fn fit(&mut self, record: &FlowRecord, now_ns: u64, empty: bool) -> Clock {
        let first_ns = earliest(record);
        let first_ms = first_ns / NANOS_PER_MILLI;
        let end_ms = whole_second(time_of_message(record, now_ns)) * 1000;
        let fits = |boot: u64| boot <= first_ms && end_ms.saturating_sub(boot) <= SPAN_MS;
        if self.boot_ms.is_some_and(fits) {
            return Clock::Fits;
        }
        if !empty {
            return Clock::NeedsNewMessage;
        }
        let boot = first_ms
            .saturating_sub(MARGIN_MS)
            .max(end_ms.saturating_sub(SPAN_MS));
        self.boot_ms = Some(boot);
        if boot <= first_ms {
            Clock::Fits
        } else {
            Clock::Clamped
        }
    }
}

/// Returns the time of a message that can express a record's times, in nanoseconds since 1970. It is the
/// clock's time, unless that is too far from the record (packets of another year came in between); then it is
/// the record's own.
pub(crate) fn time_of_message(record: &FlowRecord, now_ns: u64) -> u64 {
    let first_ns = earliest(record);
    // In a collected record, the end may be before the beginning.
    let own_ns = latest(record).max(first_ns);
    let is_far = whole_second(now_ns) * 1000 > (first_ns / NANOS_PER_MILLI).saturating_add(SPAN_MS);
    if is_far { own_ns } else { own_ns.max(now_ns) }
}

fn earliest(record: &FlowRecord) -> u64 {
    let reverse = record.reverse.map_or(u64::MAX, |reverse| reverse.first_ns);
    record.forward.first_ns.min(reverse)
}

/// Returns seconds since 1970, rounded up.
fn whole_second(time_ns: u64) -> u64 {
    time_ns.div_ceil(NANOS_PER_SECOND)
}

impl Protocol for V9 {
    const HEADER: usize = 20;
    const ALIGNMENT: usize = 4;
    const TEMPLATE_SET: u16 = 0;
    const OPTIONS_TEMPLATE_SET: u16 = 1;

    fn dialect(_options: &ExportOptions) -> Dialect {
        Dialect::V9
    }

    fn fits_clock(&mut self, record: &FlowRecord, now_ns: u64, empty: bool) -> Clock {
        self.uptime.fit(record, now_ns, empty)
    }

    fn time_of_message(record: &FlowRecord, now_ns: u64) -> u64 {
        time_of_message(record, now_ns)
    }

    fn boot_ms(&self) -> u64 {
        self.uptime.boot_ms()
    }

    fn seal(&self, message: &mut [u8], records: u16, _data_records: u16, now_ns: u64) -> u16 {
        let seconds = whole_second(now_ns);
        let uptime = uptime(
            seconds.saturating_mul(NANOS_PER_SECOND),
            self.uptime.boot_ms(),
        );
        message[..2].copy_from_slice(&9u16.to_be_bytes());
        message[2..4].copy_from_slice(&records.to_be_bytes());
        message[4..8].copy_from_slice(&uptime.to_be_bytes());
        message[8..12].copy_from_slice(&saturate(seconds).to_be_bytes());
        // Messages are counted, not flows (section 5.1).
        1
    }

    fn put_options_template(record: &OptionsRecord, out: &mut Vec<u8>) {
        out.extend_from_slice(&record.id.to_be_bytes());
        let scope_length = count(SCOPE_SYSTEM.len());
        out.extend_from_slice(&scope_length.to_be_bytes());
        let length = count(4 * record.values.len());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&SCOPE_SYSTEM);
        for (element, _) in &record.values {
            element.put(out);
        }
    }
}
