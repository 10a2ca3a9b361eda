//! Sampling, as the program has set it.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap_capture::Packet;

/// `PCAP_SAMP_1_EVERY_N`.
const ONE_OF: c_int = 1;
/// `PCAP_SAMP_FIRST_AFTER_N_MS`.
const FIRST_AFTER: c_int = 2;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// `struct pcap_samp`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Samp {
    method: c_int,
    value: c_int,
}

/// The structure that the program writes to, after it has asked for it.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    asked: AtomicBool,
    samp: UnsafeCell<Samp>,
}

// SAFETY: only C writes the structure, and uses a handle from one thread at a time.
unsafe impl Sync for Wanted {}

impl Wanted {
    /// Returns the structure's address, for a program that asks for it.
    pub(crate) fn place(&self) -> *mut Samp {
        self.asked.store(true, Ordering::Release);
        self.samp.get()
    }

    fn get(&self) -> Samp {
        if !self.asked.load(Ordering::Acquire) {
            return Samp::default();
        }
        // SAFETY: the place is valid for the handle's life; any bytes are valid numbers.
        unsafe { self.samp.get().read_volatile() }
    }
}

/// The state of the sampling.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    samp: Samp,
    passed: c_int,
    /// The time of the last packet taken.
    taken: Option<i128>,
}

impl Sampler {
    /// Reads the program's settings.
    pub(crate) fn follow(&mut self, wanted: &Wanted) {
        self.samp = wanted.get();
    }

    /// Returns whether every packet is taken.
    pub(crate) fn takes_all(&self) -> bool {
        self.samp.method == 0
    }

    /// Returns whether a packet is taken.
    #[inline]
    pub(crate) fn takes(&mut self, packet: &Packet<'_>) -> bool {
        self.takes_all() || self.chooses(packet)
    }

    fn chooses(&mut self, packet: &Packet<'_>) -> bool {
        let Samp { method, value } = self.samp;
        match method {
            ONE_OF if value > 1 => {
                let takes = self.passed == 0;
                self.passed = (self.passed + 1) % value;
                takes
            }
            FIRST_AFTER if value > 0 => {
                let now = packet.timestamp.as_nanos();
                let pause = i128::from(value) * NANOS_PER_MILLI;
                let takes = self.taken.is_none_or(|taken| now - taken >= pause);
                if takes {
                    self.taken = Some(now);
                }
                takes
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap_capture::{PacketFlags, Timestamp};

    use super::*;

    fn taken(method: c_int, value: c_int, millis: &[i64]) -> Vec<bool> {
        let mut sampler = Sampler {
            samp: Samp { method, value },
            ..Sampler::default()
        };
        let packets = millis.iter().map(|millis| Packet {
            timestamp: Timestamp::from_nanos(millis * 1_000_000),
            len: 60,
            interface: 0,
            flags: PacketFlags::default(),
            data: &[],
            process: None,
        });
        packets.map(|packet| sampler.takes(&packet)).collect()
    }

    #[test]
    fn samples_are_taken_by_number_and_by_time() {
        assert_eq!(taken(0, 9, &[1, 2]), [true, true]);
        assert_eq!(taken(1, 3, &[1, 2, 3, 4]), [true, false, false, true]);
        assert_eq!(
            taken(2, 10, &[0, 5, 10, 19, 20]),
            [true, false, true, false, true]
        );
        assert_eq!(taken(1, 0, &[1, 2]), [true, true]);
        assert_eq!(taken(7, 7, &[1, 2]), [true, true]);
    }
}
