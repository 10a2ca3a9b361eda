#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod block;
mod capture;
mod describe;
pub mod devices;
mod emit;
mod engines;
mod error;
mod filter;
// For ringtap's other crates: it may change at any time.
#[doc(hidden)]
pub mod hook;
pub mod index;
mod lookup;
mod native;
mod options;
mod readers;
mod source;
pub mod stat;
mod stats;
pub mod system;
mod who;

pub use block::{Block, Packets};
pub use capture::{Capture, CaptureBuilder};
pub use describe::{Clock, Description, FilterPlace, KernelClock, Memory, Note, UserSpaceReason};
pub use engines::{
    Device, ENGINES, Engine, FileSource, Host, MAP_FILE, Processors, open, open_file, open_on,
    open_readers, open_stream,
};
pub use error::{Error, Result};
pub use filter::{Filter, Matcher};
pub use hook::{HookError, HookPoint, StealHazard};
pub use options::{
    CaptureOptions, Direction, Fanout, FanoutMode, MAX_SNAPLEN, Mode, OptionError, Precision,
    SampleMode, Stage, TimestampSource,
};
pub use readers::Readers;
pub use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
pub use ringtap_savefile::{Interface, Item, MapFile, Mapped, ReadError, ReadOptions, Visitor};
pub use source::{
    Change, Companion, Delivery, Next, PROGRAM_PARTS, Polling, ProgramPart, Source, Waker,
};
pub use stats::{Dropped, Stats, XdpLosses};
pub use who::{ContainerNamer, Who, WhoLosses};

/// Parses a list of processors in the kernel's form, such as `0-3,5`.
///
/// # Errors
///
/// The error, and its place.
pub fn parse_cpu_list(
    text: &str,
) -> std::result::Result<Vec<usize>, ringtap_sys::sched::CpuListError> {
    text.parse::<ringtap_sys::sched::CpuList>()
        .map(|list| list.as_slice().to_vec())
}
