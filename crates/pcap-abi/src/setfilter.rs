//! Filters of running captures: `pcap_setfilter`, and wishes of callers that come while packets are
//! being read.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ringtap_capture::{Error, Filter, Matcher, Packet};
use ringtap_filter::Program;

use crate::boundary::export;
use crate::bpf;
use crate::handle::{Kind, Pcap, lock};
use crate::read::Reading;
use crate::types::{BpfProgram, code};

/// What callers want of the reading side while it is in use: callbacks, and other threads.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pending: AtomicBool,
    /// How many there were so far.
    made: AtomicU64,
    filter: Mutex<Option<Program>>,
}

impl Wishes {
    /// Whether there is one; a load.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    fn wish(&self, program: Program) {
        *lock(&self.filter) = Some(program);
        self.made.fetch_add(1, Ordering::Release);
        self.pending.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Program> {
        self.pending.store(false, Ordering::Release);
        lock(&self.filter).take()
    }
}

impl Pcap {
    /// Sets the filter that was asked for while packets were read. A block that is lent is given back:
    /// to be called when no packet is in use.
    pub(crate) fn grant_wishes(&self, reading: &mut Reading) {
        if !self.wishes.any() {
            return;
        }
        if let Some(program) = self.wishes.take()
            && let Err(error) = self.set_filter(reading, program)
        {
            // The one who asked for it is gone; the filter before stays.
            self.say(error);
        }
    }

    /// Has the filter that was asked for choose from the packets that were captured already. It is set
    /// for those to come when the block has been read.
    pub(crate) fn grant_wishes_in_part(&self, reading: &mut Reading) {
        // To be called for each packet of that block: the program is made ready once.
        let made = self.wishes.made.load(Ordering::Acquire);
        if std::mem::replace(&mut reading.granted, made) == made {
            return;
        }
        let wished = lock(&self.wishes.filter);
        if let Some(program) = &*wished {
            reading.matcher = matcher(program);
        }
    }

    fn set_filter(&self, reading: &mut Reading, program: Program) -> Result<(), String> {
        if self.live().is_none() {
            // Packets may have been read ahead: each is looked at when it is handed out.
            reading.matcher = matcher(&program);
            return Ok(());
        }
        if let Some(counting) = &mut reading.counting {
            counting.set_filter(&program)?;
            reading.program = Some(program);
            return Ok(());
        }
        reading.set_aside(Some(&program));
        match reading.filter_source(Some(&program)) {
            Ok(()) => {}
            // Programs such as tcpdump give up their rights after they have opened a device, and then
            // set the filter. Packets are chosen here instead, where all of them come.
            Err(error) if error.is_permission_denied() && reading.takes_all => {
                reading.matcher = matcher(&program);
            }
            Err(error) => {
                // The filter before stays, wherever it is.
                let before = reading.program.as_ref().filter(|_| reading.takes_all);
                reading.matcher = before.and_then(matcher);
                return Err(error.to_string());
            }
        }
        reading.program = Some(program);
        Ok(())
    }
}

impl Reading {
    /// Has the source of a live capture choose packets; none takes all of them.
    pub(crate) fn filter_source(&mut self, program: Option<&Program>) -> Result<(), Error> {
        let filter = program.cloned().map(Filter::from_program);
        self.lent.source().set_filter(filter.as_ref())?;
        self.takes_all = program.is_none_or(bpf::accepts_all);
        self.matcher = None;
        Ok(())
    }

    /// Copies what is left of the block that is lent, those packets that the program accepts, and
    /// gives it back.
    pub(crate) fn set_aside(&mut self, program: Option<&Program>) {
        let program = program.and_then(matcher);
        let wanted = |packet: &Packet<'_>| program.as_ref().is_none_or(|m| m.accepts(packet));
        self.backlog.retain(wanted);
        while let Some(packet) = self.lent.find(wanted) {
            self.backlog.push(&packet);
        }
        self.lent.release();
    }
}

/// A program made ready; nothing for one that accepts everything.
fn matcher(program: &Program) -> Option<Arc<Matcher>> {
    let accepts_all = bpf::accepts_all(program);
    (!accepts_all).then(|| Arc::new(Matcher::new(program.clone())))
}

export! {
    /// Sets the filter.
    fn pcap_setfilter(handle: Option<&Pcap>, program: Option<&BpfProgram>) -> c_int {
        let Some(handle) = handle else {
            return code::ERROR;
        };
        let opened = match handle.activated() {
            Ok(opened) => opened,
            Err(code) => return code,
        };
        if matches!(opened.kind, Kind::Dead) {
            return handle.fail("A filter cannot be set on a pcap_open_dead pcap_t");
        }
        let Some(program) = program else {
            return handle.fail("setfilter: No filter specified");
        };
        let Some(program) = bpf::program(program.insns()) else {
            return handle.fail("BPF program is not valid");
        };
        let Some(mut guard) = handle.try_reading() else {
            handle.wishes.wish(program);
            if let Some(waker) = handle.waker.get() {
                waker.wake();
            }
            return 0;
        };
        let Some(reading) = &mut *guard else {
            return handle.fail("There is nothing to read from this handle");
        };
        match handle.set_filter(reading, program) {
            Ok(()) => 0,
            Err(error) => handle.fail(error),
        }
    } else code::ERROR;
}
