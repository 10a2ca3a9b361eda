//! Where and how urgently a thread runs: processors and real-time priority.
//!
//! A thread that is started afterwards inherits the processors, but not the priority.
//!
//! Source: sched(7), cpuset(7) for the form of processor lists.

use std::fs;
use std::io;
use std::mem::size_of;
use std::str::FromStr;

use crate::{Error, Result};

/// The largest number of processors that any Linux kernel supports (`CONFIG_NR_CPUS` on x86-64);
/// their numbers are 0 to 8191. It bounds the memory that a list can ask for.
pub const CPUS_MAX: usize = 8192;
const ONLINE: &str = "/sys/devices/system/cpu/online";
const PRESENT: &str = "/sys/devices/system/cpu/present";
const MASK_BITS: usize = libc::c_ulong::BITS as usize;
const MASK_WORDS: usize = CPUS_MAX / MASK_BITS;

/// A list of processor numbers, each once, ascending; parsed from the kernel's form `0-3,5`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CpuList(Vec<usize>);

/// An invalid list of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("processor list, character {position}: {reason}")]
pub struct CpuListError {
    /// The position of the error, in bytes from 0.
    pub position: usize,
    /// The reason.
    pub reason: CpuListReason,
}

/// The reason why a list of processors is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuListReason {
    /// A number is missing.
    #[error("a processor number is expected")]
    NotANumber,
    /// The number is too large.
    #[error("the last processor number is {}", CPUS_MAX - 1)]
    TooLarge,
    /// A range ends below its beginning.
    #[error("the range ends before it begins")]
    Reversed,
}

impl CpuList {
    /// Returns the numbers, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }
}

impl AsRef<[usize]> for CpuList {
    fn as_ref(&self) -> &[usize] {
        &self.0
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> std::result::Result<Self, CpuListError> {
        let mut cpus = Vec::new();
        let mut position = 0;
        for part in text.split(',') {
            let (first, last) = parse_range(part, position)?;
            cpus.extend(first..=last);
            position += part.len() + 1;
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

fn parse_range(part: &str, position: usize) -> std::result::Result<(usize, usize), CpuListError> {
    let (first, last) = match part.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (part, None),
    };
    let begin = parse_number(first, position)?;
    let Some(last) = last else {
        return Ok((begin, begin));
    };
    let end = parse_number(last, position + first.len() + 1)?;
    if end < begin {
        return Err(CpuListError {
            position,
            reason: CpuListReason::Reversed,
        });
    }
    Ok((begin, end))
}

fn parse_number(text: &str, position: usize) -> std::result::Result<usize, CpuListError> {
    let wrong = |reason| CpuListError { position, reason };
    let text = text.trim_matches([' ', '\n']);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong(CpuListReason::NotANumber));
    }
    let number = text
        .parse()
        .ok()
        .filter(|&number: &usize| number < CPUS_MAX);
    number.ok_or(wrong(CpuListReason::TooLarge))
}

/// Returns the processors that are online (`/sys/devices/system/cpu/online`). If that file cannot
/// be read, returns those that the calling thread may use.
///
/// # Errors
/// Neither can be read.
pub fn online_cpus() -> Result<CpuList> {
    listed_in(ONLINE).map_or_else(affinity, Ok)
}

/// Returns the processors that the machine has now, including those that are switched off
/// (`/sys/devices/system/cpu/present`). If that file cannot be read, returns those that are online.
///
/// # Errors
/// None of these can be read.
pub fn present_cpus() -> Result<CpuList> {
    listed_in(PRESENT).map_or_else(online_cpus, Ok)
}

fn listed_in(file: &str) -> Option<CpuList> {
    fs::read_to_string(file).ok()?.parse().ok()
}

/// Returns the processors that the calling thread may use (`sched_getaffinity(2)`).
///
/// # Errors
/// The kernel supports more than [`CPUS_MAX`] processors.
pub fn affinity() -> Result<CpuList> {
    affinity_of(0)
}

/// Returns the processors that a thread may use; 0 is the calling thread.
fn affinity_of(thread: u32) -> Result<CpuList> {
    let thread = thread.cast_signed();
    let mut mask: [libc::c_ulong; MASK_WORDS] = [0; MASK_WORDS];
    // SAFETY: the pointer and the length in bytes describe `mask`, which outlives the call; a set
    // of processors is an array of unsigned longs of any length (sched_setaffinity(2)).
    let result = unsafe { libc::sched_getaffinity(thread, mask_bytes(), mask.as_mut_ptr().cast()) };
    Error::check(result, "sched_getaffinity", "")?;
    let is_set = |cpu: &usize| mask[cpu / MASK_BITS] >> (cpu % MASK_BITS) & 1 != 0;
    Ok(CpuList((0..CPUS_MAX).filter(is_set).collect()))
}

/// Binds the calling thread to processors.
///
/// # Errors
/// `EINVAL` if none of them is online and allowed, or if a number is [`CPUS_MAX`] or more.
pub fn set_affinity(cpus: &[usize]) -> Result<()> {
    set_affinity_of(0, cpus)
}

fn set_affinity_of(thread: u32, cpus: &[usize]) -> Result<()> {
    let mut mask: [libc::c_ulong; MASK_WORDS] = [0; MASK_WORDS];
    for &cpu in cpus {
        let Some(word) = mask.get_mut(cpu / MASK_BITS) else {
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            let context = format!("processor {cpu}");
            return Err(Error::new("sched_setaffinity", context, source));
        };
        *word |= 1 << (cpu % MASK_BITS);
    }
    let thread = thread.cast_signed();
    // SAFETY: the pointer and the length in bytes describe `mask`, which outlives the call.
    let result = unsafe { libc::sched_setaffinity(thread, mask_bytes(), mask.as_ptr().cast()) };
    let context = format!("processors {cpus:?}");
    Error::check(result, "sched_setaffinity", context)
}

const fn mask_bytes() -> usize {
    MASK_WORDS * size_of::<libc::c_ulong>()
}

/// Gives the calling thread the real-time policy `SCHED_FIFO` with a priority of 1 to 99. Threads
/// and processes that it starts get the ordinary policy. Needs `CAP_SYS_NICE` or a limit
/// `RLIMIT_RTPRIO`.
///
/// # Errors
/// `EINVAL` if the priority is out of range, `EPERM` if the privilege is missing.
pub fn set_fifo(priority: u8) -> Result<()> {
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    let answer = set_scheduler(0, policy, priority.into());
    let context = format!("priority {priority}");
    Error::check(answer, "sched_setscheduler(SCHED_FIFO)", context)
}

/// The parameters of a policy, as the kernel has them (`linux/sched/types.h`). The functions of musl do not support
/// threads, so the kernel is asked directly.
#[repr(C)]
struct Parameters {
    priority: libc::c_int,
}

/// Calls `sched_setscheduler(2)`; 0 is the calling thread. Returns 0, or -1 with a reason in `errno`.
fn set_scheduler(thread: u32, policy: libc::c_int, priority: libc::c_int) -> libc::c_long {
    let parameters = Parameters { priority };
    // SAFETY: the pointer describes `parameters`, which outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            thread,
            policy,
            &raw const parameters,
        )
    }
}

/// The processors, policy and priority of a thread (sched(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    cpus: CpuList,
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Placement {
    /// Reads the placement of a thread; 0 is the calling thread.
    ///
    /// # Errors
    /// `ESRCH` if there is no such thread.
    pub fn of(thread: u32) -> Result<Self> {
        let cpus = affinity_of(thread)?;
        let mut parameters = Parameters { priority: 0 };
        // SAFETY: takes no pointer.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) };
        // SAFETY: the pointer describes `parameters`, which is writable and outlives the call.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getparam, thread, &raw mut parameters) };
        let policy = libc::c_int::try_from(policy).unwrap_or(-1);
        let answer = result.min(policy.into());
        Error::check(answer, "sched_getscheduler", format!("thread {thread}"))?;
        Ok(Self {
            cpus,
            policy,
            priority: parameters.priority,
        })
    }

    /// Returns this placement with other processors, and with the policy `SCHED_FIFO` if a priority
    /// is given.
    #[must_use]
    pub fn moved(&self, cpus: &[usize], priority: Option<u8>) -> Self {
        Self {
            cpus: CpuList(cpus.to_vec()),
            policy: priority.map_or(self.policy, |_| libc::SCHED_FIFO),
            priority: priority.map_or(self.priority, libc::c_int::from),
        }
    }

    /// Applies this placement to a thread. A thread of another user needs `CAP_SYS_NICE`.
    ///
    /// # Errors
    /// `EINVAL` if none of the processors is online, `EPERM` if the privilege is missing, `ESRCH`
    /// if the thread has ended.
    pub fn give(&self, thread: u32) -> Result<()> {
        set_affinity_of(thread, &self.cpus.0)?;
        let answer = set_scheduler(thread, self.policy, self.priority);
        Error::check(answer, "sched_setscheduler", format!("thread {thread}"))
    }
}

/// Gives a process of this user the smallest share of the processors (`setpriority(2)`, nice value
/// 19).
///
/// # Errors
/// `ESRCH` if the process has ended; `EPERM` if it belongs to another user.
pub fn least_share(process: u32) -> Result<()> {
    // SAFETY: takes no pointer.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, process, 19) };
    Error::check(result, "setpriority", "")
}

/// Sets the calling thread's nice value (nice(2)), 0 to 19: the higher, the more it gives way to
/// other threads of the ordinary policy. Linux keeps the value per thread.
///
/// # Errors
/// `EACCES` if the value is lower than the present one and `CAP_SYS_NICE` is missing.
pub fn set_nice(value: u8) -> Result<()> {
    // SAFETY: takes no pointer; process 0 is the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value.into()) };
    Error::check(result, "setpriority", "")
}

/// Makes the calling thread's sleeps end as precisely as the kernel can, until this is dropped
/// (`PR_SET_TIMERSLACK`, prctl(2)). By default the kernel may add 50 µs.
#[derive(Debug)]
pub struct TimerSlack {
    before: libc::c_ulong,
    /// The setting belongs to the thread that made it, so the value must not be sent to another.
    thread: std::marker::PhantomData<*const ()>,
}

impl TimerSlack {
    /// Sets the smallest slack, one nanosecond.
    ///
    /// # Errors
    /// `prctl` fails, which does not happen with these arguments.
    pub fn least() -> Result<Self> {
        // SAFETY: takes no pointer.
        let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let Ok(before) = libc::c_ulong::try_from(before) else {
            return Err(Error::last("prctl(PR_GET_TIMERSLACK)", ""));
        };
        // SAFETY: takes no pointer.
        let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        Error::check(result, "prctl(PR_SET_TIMERSLACK)", "")?;
        Ok(Self {
            before,
            thread: std::marker::PhantomData,
        })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        // SAFETY: takes no pointer. This is the thread that made the value: its type is not `Send`.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, self.before) };
    }
}

/// Returns the NUMA node of a processor (`/sys/devices/system/cpu/cpuN/nodeM`), or `None` if the
/// system has no nodes.
#[must_use]
pub fn numa_node(cpu: usize) -> Option<u32> {
    let folder = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    folder.flatten().find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    })
}

/// Waits for an RCU grace period, until every processor has left the kernel code that it was
/// running when the call began (`membarrier(2)`, `MEMBARRIER_CMD_GLOBAL`; Linux 4.3). BPF programs
/// that were running then have ended.
///
/// # Errors
/// `EINVAL` on kernels that run processors without a tick (`nohz_full`).
pub fn wait_for_all_cpus() -> Result<()> {
    const GLOBAL: libc::c_long = 1;
    // SAFETY: the call takes numbers only and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    Error::check(result, "membarrier", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn parse(text: &str) -> std::result::Result<Vec<usize>, CpuListError> {
        text.parse::<CpuList>().map(|list| list.0)
    }

    #[test]
    fn lists_are_read_in_the_kernels_form() {
        assert_eq!(parse("0"), Ok(vec![0]));
        assert_eq!(parse("0-3,5"), Ok(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse("7,1-2,2-3\n"), Ok(vec![1, 2, 3, 7]));
        assert_eq!(parse("8191"), Ok(vec![8191]));
    }

    #[test]
    fn errors_name_the_place() {
        let wrong = |position, reason| Err(CpuListError { position, reason });
        assert_eq!(parse(""), wrong(0, CpuListReason::NotANumber));
        assert_eq!(parse("0,"), wrong(2, CpuListReason::NotANumber));
        assert_eq!(parse("0,x"), wrong(2, CpuListReason::NotANumber));
        assert_eq!(parse("0-"), wrong(2, CpuListReason::NotANumber));
        assert_eq!(parse("-1"), wrong(0, CpuListReason::NotANumber));
        assert_eq!(parse("+1"), wrong(0, CpuListReason::NotANumber));
        assert_eq!(parse("1-2-3"), wrong(2, CpuListReason::NotANumber));
        assert_eq!(parse("1,3-2"), wrong(2, CpuListReason::Reversed));
        assert_eq!(parse("0-8192"), wrong(2, CpuListReason::TooLarge));
        assert_eq!(
            parse("99999999999999999999"),
            wrong(0, CpuListReason::TooLarge)
        );
        assert_eq!(
            parse("0,x").expect_err("no number").to_string(),
            "processor list, character 2: a processor number is expected"
        );
    }

    #[test]
    fn a_thread_is_bound_alone() {
        let before = affinity().expect("own processors");
        let last = *before.as_slice().last().expect("at least one");
        let bound = thread::spawn(move || {
            set_affinity(&[last])?;
            affinity()
        });
        let bound = bound
            .join()
            .expect("no panic")
            .expect("an allowed processor");
        assert_eq!(bound.as_slice(), [last]);
        assert_eq!(affinity().expect("own processors"), before);
        let online = online_cpus().expect("some");
        assert!(online.as_slice().contains(&last));
    }

    #[test]
    fn impossible_placements_are_refused() {
        let errno = |result: Result<()>| result.expect_err("refused").errno();
        assert_eq!(errno(set_affinity(&[])), Some(libc::EINVAL));
        assert_eq!(errno(set_affinity(&[CPUS_MAX])), Some(libc::EINVAL));
        assert_eq!(errno(set_affinity(&[CPUS_MAX - 1])), Some(libc::EINVAL));
        assert_eq!(errno(set_fifo(100)), Some(libc::EINVAL));
    }
}
