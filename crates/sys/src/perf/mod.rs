//! Sampling: where each processor is, thousands of times a second.
//!
//! What it is: `perf_event_open(2)` for whole processors, kernel and user, with the kernel's call
//! chain; samples out, one after the other. What it is not: it knows no symbols, and adds nothing up.
//!
//! Rights: `CAP_PERFMON` (Linux 5.8) or `CAP_SYS_ADMIN`, or a system whose
//! `/proc/sys/kernel/perf_event_paranoid` is at most 0.

mod abi;
mod ring;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Error, Result};
use ring::Ring;

/// Frames of a call chain that are kept at most.
pub const DEPTH_MAX: u16 = 48;
/// Pages of each processor's ring, a power of two: enough for half a second at 4,000 samples a second, for
/// whoever drains it may have to wait for a processor.
const PAGES: usize = 256;

/// What makes a processor take a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// So many cycles of the processor have passed, counted by its own counter. Its interrupt comes
    /// also where ordinary interrupts are off.
    Cycles {
        /// Cycles between two samples.
        period: u64,
    },
    /// So many nanoseconds have passed, by a timer of the kernel (event `cpu-clock`). Where interrupts
    /// are off it comes late: the sample then shows where they were let in again.
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

    /// What lies between two samples, in its own unit.
    #[must_use]
    pub const fn period(self) -> u64 {
        match self {
            Self::Cycles { period } | Self::Clock { period } => period,
        }
    }
}

/// A moment of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The processor.
    pub cpu: u32,
    /// Process and thread that ran; 0 for an idle processor. They are numbers of the caller's
    /// namespace.
    pub process: u32,
    /// As above.
    pub thread: u32,
    /// Where it was, in the kernel or in the process.
    pub address: u64,
    /// Whether that is in the kernel.
    pub in_kernel: bool,
    /// The kernel's call chain, innermost first, in native byte order, eight bytes each; see
    /// [`Sample::kernel_chain`].
    chain: &'a [u8],
}

impl Sample<'_> {
    /// Addresses of the kernel, from the innermost on; first where it was, then where each caller will
    /// go on. Empty where the processor was not in the kernel.
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

/// What became of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples handed out.
    pub samples: u64,
    /// Samples lost for want of room.
    pub lost: u64,
    /// How often the kernel paused a processor's samples because they were too many.
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
    /// Makes ready to sample processors; [`Sampler::start`] begins.
    ///
    /// # Errors
    /// EACCES and EPERM without the right ([`paranoid`]), ENOENT and EOPNOTSUPP where the processor has
    /// no counter of cycles, as in most virtual machines, ENODEV for a processor that is not online.
    pub fn open(trigger: Trigger, cpus: &[usize]) -> Result<Self> {
        let events: Result<Vec<_>> = cpus.iter().map(|&cpu| Event::open(trigger, cpu)).collect();
        Ok(Self {
            trigger,
            events: events?,
            record: Vec::new(),
        })
    }

    /// What makes a sample.
    #[must_use]
    pub const fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Begins.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(&self) -> Result<()> {
        self.all("ioctl(PERF_EVENT_IOC_ENABLE)", abi::ENABLE)
    }

    /// Ends; what is in the rings can still be drained.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stop(&self) -> Result<()> {
        self.all("ioctl(PERF_EVENT_IOC_DISABLE)", abi::DISABLE)
    }

    fn all(&self, call: &'static str, request: libc::c_ulong) -> Result<()> {
        for event in &self.events {
            // SAFETY: the request takes a number and touches no memory of ours.
            let result = unsafe { libc::ioctl(event.fd.as_raw_fd(), request, 0) };
            if result < 0 {
                return Err(Error::last(call, ""));
            }
        }
        Ok(())
    }

    /// Hands out the samples that are there.
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
        // SAFETY: the attribute is read only, states its own size, and lives until the call returns.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attribute,
                -1,
                i32::try_from(cpu).unwrap_or(i32::MAX),
                -1,
                abi::OPEN_CLOEXEC,
            )
        };
        let context = format!("processor {cpu}");
        let Some(fd) = i32::try_from(fd).ok().filter(|&fd| fd >= 0) else {
            return Err(Error::last(call, context));
        };
        // SAFETY: the kernel answers with a new fd that is ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let ring = Ring::map(&fd, PAGES)?;
        Ok(Self { fd, ring })
    }
}

/// Takes a record's body apart, in the order of the sample type: address, process and thread, CPU,
/// chain.
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
        // Callers of the user's side are left out, so that a chain of it is empty.
        in_kernel: first == Some(abi::CONTEXT_KERNEL),
        chain,
    })
}

/// How far the system restricts sampling (`/proc/sys/kernel/perf_event_paranoid`): above 1, nobody
/// without `CAP_PERFMON` sees the kernel; above 0, nobody sees whole processors. Nothing where the
/// kernel has no performance events.
#[must_use]
pub fn paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// Whether an error says that the right is missing.
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
        // A chain that claims more than there is.
        let head = [kernel, pair(7, 8), pair(3, 0), u64::MAX];
        assert!(sample(&words(&head)).is_none());
        let user = words(&[0x4000, pair(7, 8), pair(3, 0), 0]);
        let user = sample(&user).expect("whole");
        assert!(!user.in_kernel && user.kernel_chain().next().is_none());
    }
}
