//! The reading side of a handle: packets on their way from the source to the program.

use std::ffi::c_uchar;
use std::sync::Arc;

use ringtap_capture::{Error, Filter, Matcher, Packet, Waker};
use ringtap_filter::Program;

use crate::backlog::Backlog;
use crate::borrowed_block::BorrowedBlock;
use crate::bpf;
use crate::state::counting::Counting;
use crate::state::sampling::Sampler;
use crate::types::PacketHeader;

/// Bytes of a record's header.
const RECORD_HEADER: u64 = 16;

/// The reading side of a handle.
pub(crate) struct Reading {
    pub(crate) borrowed: BorrowedBlock,
    pub(crate) waker: Waker,
    /// Packets copied from a block, to be delivered first.
    pub(crate) backlog: Backlog,
    /// A filter that is applied here. For a file, to all packets. For a live capture, to packets
    /// captured with the former filter, or to all if the kernel did not take the filter.
    pub(crate) matcher: Option<Arc<Matcher>>,
    /// Whether the source of a live capture delivers all packets.
    pub(crate) takes_all: bool,
    /// The number of the last filter request that `matcher` was made from.
    pub(crate) granted: u64,
    /// The direction of the packets to deliver, if the engine does not select it.
    pub(crate) direction: Option<ringtap_capture::Direction>,
    /// Whether an error followed packets that were counted; the next call reports it.
    pub(crate) failed: bool,
    /// The filter of a live capture.
    pub(crate) program: Option<Program>,
    /// Counters, in statistics mode.
    pub(crate) counting: Option<Counting>,
    pub(crate) sampler: Sampler,
    /// The position in a file.
    pub(crate) place: ReadPosition,
    /// Whether any packets have been read.
    pub(crate) started: bool,
    /// The header that `pcap_next_ex` points to.
    pub(crate) header: Box<PacketHeader>,
    /// The last packet that it returned, if its block was given back.
    last: Vec<u8>,
}

/// The position up to which records were read.
#[derive(Debug, Default)]
pub(crate) struct ReadPosition {
    /// Bytes of all records that were read.
    pub(crate) bytes: u64,
    /// The stream's position after the last read.
    pub(crate) left_at: Option<u64>,
}

impl ReadPosition {
    /// Counts a record as read.
    #[inline]
    fn pass(&mut self, packet: &Packet<'_>) {
        self.bytes += RECORD_HEADER + packet.data.len() as u64;
    }
}

impl Reading {
    pub(crate) fn new(borrowed: BorrowedBlock, waker: Waker) -> Self {
        Self {
            borrowed,
            waker,
            backlog: Backlog::default(),
            matcher: None,
            takes_all: true,
            granted: 0,
            direction: None,
            failed: false,
            program: None,
            counting: None,
            sampler: Sampler::default(),
            place: ReadPosition::default(),
            started: false,
            header: Box::new(PacketHeader::zero()),
            last: Vec::new(),
        }
    }

    /// Gives back a block whose packets have all been read, so that the descriptor is readable only
    /// for new packets. Call it only when no packet is in use.
    pub(crate) fn settle(&mut self) {
        if self.borrowed.is_spent() {
            let has_more = !self.backlog.is_empty();
            self.borrowed.settle(has_more);
        }
    }

    /// Does the same while a packet is in use, and returns its bytes: they stay valid until the
    /// next packet is read.
    ///
    /// # Safety
    ///
    /// The bytes are those of the packet that was delivered last.
    pub(crate) unsafe fn settle_behind(
        &mut self,
        (data, len): (*const c_uchar, usize),
    ) -> *const c_uchar {
        if !self.borrowed.is_spent() {
            return data;
        }
        // SAFETY: by the caller's promise the packet is in the borrowed block, or in the backlog,
        // and neither was given back or written to since.
        let bytes = unsafe { std::slice::from_raw_parts(data, len) };
        self.last.clear();
        self.last.extend_from_slice(bytes);
        self.settle();
        self.last.as_ptr()
    }

    /// Returns whether every packet of the borrowed block is delivered, without a filter, copies or
    /// sampling.
    pub(crate) fn is_plain(&self) -> bool {
        self.backlog.is_empty()
            && self.matcher.is_none()
            && self.direction.is_none()
            && self.sampler.takes_all()
    }

    /// Returns the next available packet that passes filter, direction and sampling.
    pub(crate) fn packet(&mut self) -> Option<Packet<'_>> {
        let Self {
            borrowed,
            backlog,
            matcher,
            direction,
            sampler,
            place,
            ..
        } = self;
        let mut wanted = |packet: &Packet<'_>| {
            place.pass(packet);
            matcher
                .as_ref()
                .is_none_or(|matcher| matcher.accepts(packet))
                && direction.is_none_or(|direction| goes(packet, direction))
                && sampler.takes(packet)
        };
        if backlog.is_empty() {
            return borrowed.find(wanted);
        }
        match backlog.find(&mut wanted) {
            Some(packet) => Some(packet),
            None => borrowed.find(wanted),
        }
    }
}

impl Reading {
    /// Sets the filter of a live capture's source; `None` accepts all packets.
    pub(crate) fn filter_source(&mut self, program: Option<&Program>) -> Result<(), Error> {
        let filter = program.cloned().map(Filter::from_program);
        self.borrowed.source().set_filter(filter.as_ref())?;
        self.takes_all = program.is_none_or(bpf::accepts_all);
        self.matcher = None;
        Ok(())
    }

    /// Makes a live capture deliver the packets that the program accepts, including waiting ones.
    /// If that fails, the former filter stays.
    pub(crate) fn choose(&mut self, program: Program) -> Result<(), String> {
        // The source needs its block back before it can reject or accept the filter.
        self.set_aside();
        match self.filter_source(Some(&program)) {
            Ok(()) => self.narrow(&program),
            // Programs such as tcpdump drop their privileges after they have opened a device, and
            // then set the filter. Packets are then filtered here, if the source delivers all of
            // them.
            Err(error) if error.is_permission_denied() && self.takes_all => {
                self.matcher = matcher(&program);
            }
            Err(error) => {
                // The former filter stays, here or in the source.
                let before = self.program.as_ref().filter(|_| self.takes_all);
                self.matcher = before.and_then(matcher);
                return Err(error.to_string());
            }
        }
        self.program = Some(program);
        Ok(())
    }

    /// Gives back the borrowed block. Its unread packets stay with the source if that delivers them
    /// again; otherwise they are copied.
    pub(crate) fn set_aside(&mut self) {
        if self.borrowed.leave() {
            return;
        }
        while let Some(packet) = self.borrowed.next() {
            self.backlog.push(&packet);
        }
        self.borrowed.settle(!self.backlog.is_empty());
    }

    /// Drops the copied packets that the program rejects.
    fn narrow(&mut self, program: &Program) {
        if !self.backlog.is_empty()
            && let Some(program) = matcher(program)
        {
            self.backlog.retain(|packet| program.accepts(packet));
        }
    }
}

/// Returns whether a packet has a direction. A packet of unknown direction matches both.
fn goes(packet: &Packet<'_>, direction: ringtap_capture::Direction) -> bool {
    use ringtap_capture::Direction;
    !matches!(
        (direction, packet.flags.0 & 3),
        (Direction::In, 2) | (Direction::Out, 1)
    )
}

/// Compiles a program; returns `None` for one that accepts everything.
pub(crate) fn matcher(program: &Program) -> Option<Arc<Matcher>> {
    let accepts_all = bpf::accepts_all(program);
    (!accepts_all).then(|| Arc::new(Matcher::new(program.clone())))
}
