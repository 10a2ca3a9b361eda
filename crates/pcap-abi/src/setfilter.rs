//! Filters of running captures: `pcap_setfilter`, and wishes of callers that come while packets are
//! being read.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ringtap_capture::{Filter, Matcher, Packet};
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
        let source = reading.lent.source();
        let set = source.set_filter(Some(&Filter::from_program(program.clone())));
        reading.matcher = match set {
            Ok(()) => None,
            // Programs such as tcpdump give up their rights after they have opened a device, and then
            // set the filter. Packets are chosen here instead, from those of the filter before.
            Err(error) if error.is_permission_denied() => matcher(&program),
            Err(error) => return Err(error.to_string()),
        };
        reading.program = Some(program);
        Ok(())
    }
}

impl Reading {
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
