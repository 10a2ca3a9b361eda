//! Sampling: records where each processor is, thousands of times per second.
//!
//! It uses `perf_event_open(2)` for whole processors, kernel and user, with the kernel's call
//! chain, and returns samples one by one. It neither resolves symbols nor adds up samples.
//!
//! Rights: `CAP_PERFMON` (Linux 5.8) or `CAP_SYS_ADMIN`, or a system whose
//! `/proc/sys/kernel/perf_event_paranoid` is at most 0.

mod abi;
mod ring;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::calls::owned;
use crate::{Error, Result};
use ring::Ring;

/// The most frames of a call chain that are kept.
pub const DEPTH_MAX: u16 = 48;
/// Pages of each processor's ring, a power of two: enough for half a second at 4,000 samples per
/// second, because the reader may have to wait for a processor.
const PAGES: usize = 256;

/// The event that makes a processor take a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A number of processor cycles, from the hardware counter. Its interrupt comes even where
    /// ordinary interrupts are off.
    Cycles {
        /// Cycles between two samples.
        period: u64,
    },
    /// A number of nanoseconds, from a kernel timer (event `cpu-clock`). Where interrupts are off
    /// it comes late: the sample then shows the place where they were enabled again.
    Clock {
        /// Nanoseconds between two samples.
        period: u64,
    },
}

impl Trigger {
    fn describe(self) -> (&'static str, u32, u64, u64) {
        match self {
            Self::Cycles { period } => {
                let (kind, config) = (abi::TYPE_HARDWARE, abi::HARDWARE_CYCLES);
                ("perf_event_open(cycles)", kind, config, period)
            }
            Self::Clock { period } => {
                let (kind, config) = (abi::TYPE_SOFTWARE, abi::SOFTWARE_CPU_CLOCK);
                ("perf_event_open(cpu-clock)", kind, config, period)
            }
        }
    }

    /// Returns the distance of two samples, in the trigger's unit.
    #[must_use]
    pub const fn period(self) -> u64 {
        match self {
            Self::Cycles { period } | Self::Clock { period } => period,
        }
    }
}

/// The state of a processor at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The processor.
    pub cpu: u32,
    /// The running process; 0 for an idle processor. The ID is that of the caller's PID namespace.
    pub process: u32,
    /// The running thread; 0 for an idle processor.
    pub thread: u32,
    /// The address of the instruction, in the kernel or in the process.
    pub address: u64,
    /// Whether that is in the kernel.
    pub in_kernel: bool,
    /// The kernel's call chain, innermost first, in native byte order, eight bytes each; see
    /// [`Sample::kernel_chain`].
    chain: &'a [u8],
}

impl Sample<'_> {
    /// Returns the kernel's addresses from the innermost on: first that of the sample, then the
    /// return address in each caller. Empty if the processor was not in the kernel.
    pub fn kernel_chain(&self) -> impl Iterator<Item = u64> {
        let words = self.chain.chunks_exact(8).map(word);
        words
            .skip_while(|&at| at != abi::CONTEXT_KERNEL)
            .skip(1)
            .take_while(|&at| at < abi::CONTEXT_MAX)
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// Counts of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples delivered.
    pub samples: u64,
    /// Samples lost because a ring was full.
    pub lost: u64,
    /// How often the kernel paused a processor's samples because there were too many.
    pub throttled: u64,
}

/// Samples of several processors. Dropping it ends the sampling.
#[derive(Debug)]
pub struct Sampler {
    trigger: Trigger,
    events: Vec<Event>,
    record: Vec<u8>,
}

#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    ring: Ring,
}

impl Sampler {
    /// Opens events for processors; [`Sampler::start`] starts them.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without the privilege ([`paranoid`]); `ENOENT` or `EOPNOTSUPP` if the
    /// processor has no cycle counter, as in most virtual machines; `ENODEV` for a processor that
    /// is not online.
    pub fn open(trigger: Trigger, cpus: &[usize]) -> Result<Self> {
        let events: Result<Vec<_>> = cpus.iter().map(|&cpu| Event::open(trigger, cpu)).collect();
        Ok(Self {
            trigger,
            events: events?,
            record: Vec::new(),
        })
    }

    /// Returns the event that makes a sample.
    #[must_use]
    pub const fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Starts sampling.
    ///
    /// # Errors
    /// The kernel rejects the request.
    pub fn start(&self) -> Result<()> {
        self.all("ioctl(PERF_EVENT_IOC_ENABLE)", abi::ENABLE)
    }

    /// Stops sampling; samples in the rings can still be read.
    ///
    /// # Errors
    /// The kernel rejects the request.
    pub fn stop(&self) -> Result<()> {
        self.all("ioctl(PERF_EVENT_IOC_DISABLE)", abi::DISABLE)
    }

    fn all(&self, call: &'static str, request: libc::Ioctl) -> Result<()> {
        for event in &self.events {
            // SAFETY: the request takes a number and touches no memory of ours.
            let result = unsafe { libc::ioctl(event.fd.as_raw_fd(), request, 0) };
            Error::check(result, call, "")?;
        }
        Ok(())
    }

    /// Passes the available samples to `each`.
    pub fn drain(&mut self, mut each: impl FnMut(&Sample<'_>)) -> Drained {
        let mut drained = Drained::default();
        for event in &mut self.events {
            while let Some(kind) = event.ring.take(&mut self.record) {
                match kind {
                    abi::RECORD_SAMPLE => {
                        if let Some(sample) = sample(&self.record) {
                            drained.samples += 1;
                            each(&sample);
                        }
                    }
                    abi::RECORD_LOST => {
                        drained.lost += self.record.get(8..16).map_or(0, word);
                    }
                    abi::RECORD_THROTTLE => drained.throttled += 1,
                    _ => {}
                }
            }
        }
        drained
    }
}

impl Event {
    /// Opens the event of one processor, for all processes.
    fn open(trigger: Trigger, cpu: usize) -> Result<Self> {
        let (call, kind, config, period) = trigger.describe();
        let attribute = abi::Attribute {
            kind,
            size: u32::try_from(size_of::<abi::Attribute>()).unwrap_or_default(),
            config,
            period,
            sample_type: abi::SAMPLE_IP | abi::SAMPLE_TID | abi::SAMPLE_CPU | abi::SAMPLE_CALLCHAIN,
            flags: abi::DISABLED | abi::EXCLUDE_HYPERVISOR | abi::EXCLUDE_CALLCHAIN_USER,
            stack_depth: DEPTH_MAX,
            ..Default::default()
        };
        // SAFETY: the attribute is read only, states its own size, and lives until the call returns,
        // which makes a descriptor.
        let fd = unsafe {
            let answer = libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attribute,
                -1,
                i32::try_from(cpu).unwrap_or(i32::MAX),
                -1,
                abi::OPEN_CLOEXEC,
            );
            owned(answer, call, format!("processor {cpu}"))
        }?;
        let ring = Ring::map(&fd, PAGES)?;
        Ok(Self { fd, ring })
    }
}

/// Parses a record's body in the order of the sample type: address, process and thread, CPU, chain.
fn sample(body: &[u8]) -> Option<Sample<'_>> {
    let half = |at: usize| {
        let bytes = body.get(at..at + 4)?;
        bytes.try_into().map(u32::from_ne_bytes).ok()
    };
    let count = usize::try_from(word(body.get(24..32)?)).ok()?;
    let chain = body.get(32..32_usize.checked_add(count.checked_mul(8)?)?)?;
    let first = chain.chunks_exact(8).map(word).next();
    Some(Sample {
        cpu: half(16)?,
        process: half(8)?,
        thread: half(12)?,
        address: word(body.get(..8)?),
        // User-space callers are excluded, so a chain from user space is empty.
        in_kernel: first == Some(abi::CONTEXT_KERNEL),
        chain,
    })
}

/// Returns how far the system restricts sampling (`/proc/sys/kernel/perf_event_paranoid`). Above 1,
/// only users with `CAP_PERFMON` see the kernel; above 0, only they see whole processors. Returns
/// `None` if the kernel has no performance events.
#[must_use]
pub fn paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// Returns whether an error means that the privilege is missing.
#[must_use]
pub fn is_refusal(error: &Error) -> bool {
    matches!(error.errno(), Some(libc::EACCES | libc::EPERM))
        || error.source.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_apart() {
        let words =
            |list: &[u64]| -> Vec<u8> { list.iter().flat_map(|word| word.to_ne_bytes()).collect() };
        let pair = |a: u32, b: u32| {
            let bytes = [a.to_ne_bytes(), b.to_ne_bytes()].concat();
            word(&bytes)
        };
        let kernel = 0xffff_ffff_8100_0000;
        let chain = [
            abi::CONTEXT_KERNEL,
            kernel,
            kernel + 5,
            abi::CONTEXT_USER,
            0x4000,
        ];
        let head = [kernel, pair(7, 8), pair(3, 0), chain.len() as u64];
        let body = words(&[head.as_slice(), &chain].concat());
        let found = sample(&body).expect("whole");
        assert_eq!((found.process, found.thread, found.cpu), (7, 8, 3));
        assert!(found.in_kernel);
        let frames: Vec<u64> = found.kernel_chain().collect();
        assert_eq!(frames, [kernel, kernel + 5]);
        // A chain longer than the record.
        let head = [kernel, pair(7, 8), pair(3, 0), u64::MAX];
        assert!(sample(&words(&head)).is_none());
        let user = words(&[0x4000, pair(7, 8), pair(3, 0), 0]);
        let user = sample(&user).expect("whole");
        assert!(!user.in_kernel && user.kernel_chain().next().is_none());
    }
}
