//! Statistics mode: packets and bytes, counted in the kernel and delivered once per interval.

use std::time::{Duration, Instant};

use ringtap_capture::Filter;
use ringtap_capture::stat::{StatOptions, Statistics};
use ringtap_filter::Program;
use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program as Classic};
use ringtap_packet::Timestamp;

use crate::lock::lock;
use crate::state::live::{Live, plain_name};
use crate::types::PacketHeader;

/// Bytes of a record: number of packets and number of bytes, 64 bits each.
const RECORD: usize = 16;

/// The running counters.
pub(crate) struct Counting {
    statistics: Statistics,
    device: String,
    interval: Duration,
    due: Instant,
    record: [u8; RECORD],
}

impl Counting {
    /// Starts counting the packets that the filter accepts, or all without a filter.
    pub(crate) fn begin(live: &Live, program: Option<&Program>) -> Result<Self, String> {
        let interval = lock(&live.options).timeout;
        let device = plain_name(&live.device).to_owned();
        let statistics = open(&device, program)?;
        Ok(Self {
            statistics,
            device,
            interval,
            due: Instant::now() + interval,
            record: [0; RECORD],
        })
    }

    /// Counts the packets that another filter accepts.
    pub(crate) fn set_filter(&mut self, program: &Program) -> Result<(), String> {
        self.statistics = open(&self.device, Some(program))?;
        Ok(())
    }

    /// Returns the time until the interval ends.
    pub(crate) fn time_left(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Returns whether packets are counted: false after the interface is gone or the program was
    /// detached.
    pub(crate) fn is_attached(&mut self) -> bool {
        self.statistics.is_attached()
    }

    /// Makes the record and returns its header.
    pub(crate) fn read(&mut self) -> PacketHeader {
        self.due = (self.due + self.interval).max(Instant::now());
        let interval = self.statistics.read();
        let count = interval.filters.first().copied().unwrap_or(interval.total);
        let (packets, bytes) = self.record.split_at_mut(RECORD / 2);
        packets.copy_from_slice(&count.packets.to_ne_bytes());
        bytes.copy_from_slice(&count.bytes.to_ne_bytes());
        let now = Timestamp::now();
        let mut header = PacketHeader::zero();
        header.ts.tv_sec = now.secs();
        header.ts.tv_usec = (now.subsec_nanos() / 1000).into();
        header.caplen = 16;
        header.len = 16;
        header
    }

    /// Returns the bytes of the last record.
    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }
}

fn open(device: &str, program: Option<&Program>) -> Result<Statistics, String> {
    let all = || Classic::new(vec![Insn::new(op::RET | op::K, u32::MAX)]);
    let program = match program {
        Some(program) => program.clone(),
        None => all().map_err(|error| error.to_string())?,
    };
    let filters = [Filter::from_program(program)];
    let opened = Statistics::open(device, &filters, &StatOptions::default());
    opened.map_err(|error| error.to_string())
}
