//! Filters of running captures: `pcap_setfilter`, also while packets are being read.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use ringtap_filter::Program;

use crate::boundary::export;
use crate::bpf;
use crate::handle::{Kind, Pcap, lock};
use crate::state::reading::{Reading, matcher};
use crate::types::{BpfProgram, code};

impl Pcap {
    /// Sets the filter that was requested while packets were read. A borrowed block is given back,
    /// so call it only when no packet is in use.
    pub(crate) fn grant_wishes(&self, reading: &mut Reading) {
        if !self.wishes.any() {
            return;
        }
        if let Some(program) = self.wishes.take()
            && let Err(error) = self.set_filter(reading, program)
        {
            // The caller of the request has returned; the former filter stays.
            self.say(error);
        }
    }

    /// Applies the requested filter to packets that were captured already. It is set for later
    /// packets when the block has been read.
    pub(crate) fn grant_wishes_in_part(&self, reading: &mut Reading) {
        // Called for each packet of that block: the program is compiled once.
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
            // Packets may have been read ahead: each is filtered when it is delivered.
            reading.matcher = matcher(&program);
            return Ok(());
        }
        if let Some(counting) = &mut reading.counting {
            counting.set_filter(&program)?;
            reading.program = Some(program);
            return Ok(());
        }
        reading.choose(program)
    }
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
            handle.wake();
            return 0;
        };
        let Some(reading) = &mut *guard else {
            return handle.fail("There is nothing to read from this handle");
        };
        handle.answer(handle.set_filter(reading, program))
    } else code::ERROR;
}

#[cfg(test)]
mod tests {
    use ringtap_capture::{
        Description, Error, FileSource, Filter, Interface, Next, ReadOptions, Result, Source,
        Stats, Waker, open_stream,
    };
    use ringtap_filter::Insn;
    use ringtap_filter::program::opcode as op;

    use super::*;
    use crate::borrowed_block::{BorrowedBlock, Pause};

    /// Packets of a file, with a kernel that rejects every filter.
    struct Refusing(FileSource);

    impl Source for Refusing {
        fn interfaces(&self) -> &[Interface] {
            self.0.interfaces()
        }

        fn next(&mut self) -> Result<Next<'_>> {
            self.0.next()
        }

        fn try_next(&mut self) -> Result<Next<'_>> {
            self.0.try_next()
        }

        fn stats(&mut self) -> Result<Stats> {
            self.0.stats()
        }

        fn waker(&self) -> Waker {
            self.0.waker()
        }

        fn set_filter(&mut self, _: Option<&Filter>) -> Result<()> {
            Err(Error::FixedAtOpening { what: "the filter" })
        }

        fn describe(&self) -> Description {
            self.0.describe()
        }
    }

    /// Returns packets of one byte each, with these bytes.
    fn reading(bytes: &[u8]) -> Reading {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        file.extend([0xff, 0xff, 0, 0, 1, 0, 0, 0]);
        for &byte in bytes {
            file.extend([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, byte]);
        }
        let stream = Box::new(std::io::Cursor::new(file));
        let source = open_stream(stream, "test", &ReadOptions::default(), None).unwrap();
        let waker = source.waker();
        let mut borrowed = BorrowedBlock::new(Box::new(Refusing(source)));
        // The interface comes first.
        assert_eq!(borrowed.advance(true).unwrap(), Pause::Other);
        assert_eq!(borrowed.advance(true).unwrap(), Pause::Packets);
        Reading::new(borrowed, waker)
    }

    /// Accepts packets whose first byte is this one.
    fn only(byte: u8) -> Program {
        Program::new(vec![
            Insn::new(op::LD | op::B | op::ABS, 0),
            Insn::jump(op::JMP | op::JEQ | op::K, byte.into(), 0, 1),
            Insn::new(op::RET | op::K, 1),
            Insn::new(op::RET | op::K, 0),
        ])
        .unwrap()
    }

    /// Returns the bytes of the packets that wait.
    fn rest(reading: &mut Reading) -> Vec<u8> {
        std::iter::from_fn(|| reading.packet().map(|packet| packet.data[0])).collect()
    }

    #[test]
    fn a_refused_filter_takes_nothing_from_the_packets_that_wait() {
        let mut reading = reading(&[1, 2, 3, 2]);
        assert_eq!(reading.packet().map(|packet| packet.data[0]), Some(1));
        assert!(reading.choose(only(3)).is_err());
        assert!(reading.program.is_none());
        assert_eq!(rest(&mut reading), [2, 3, 2]);
    }

    #[test]
    fn a_refused_filter_leaves_the_one_before_at_work() {
        let mut reading = reading(&[1, 2, 3, 2]);
        reading.program = Some(only(2));
        reading.matcher = matcher(&only(2));
        assert!(reading.choose(only(3)).is_err());
        assert_eq!(rest(&mut reading), [2, 2]);
    }
}
