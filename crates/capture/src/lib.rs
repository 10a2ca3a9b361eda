//! Packet sources, live captures and files, behind one trait; and senders behind another.
//!
//! What it is: devices, options and filters in; blocks of packets out. What it is not: it prints,
//! writes and decodes nothing.
//!
//! There are two levels.
//!
//! - **Blocks**: [`open`] and [`open_file`] give a [`Source`], whose [`Source::next`] hands out one
//!   [`Block`] after the other, borrowed from the ring or the file. Dropping a block gives its
//!   memory back. Nothing is copied or allocated per packet, and a reader that keeps up makes no
//!   system call.
//! - **Packets**: [`Capture`] does the same with a closure per packet.
//!
//! [`send`] goes the other way: frames out, at once or by a schedule.
//!
//! Where packets are not wanted, but how many there are, [`stat`] counts them in the kernel. Both
//! stand on programs attached at a [`hook`].
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use ringtap_capture::Capture;
//!
//! # fn main() -> Result<(), ringtap_capture::Error> {
//! let mut capture = Capture::on("eth0").filter("tcp port 443").snaplen(96).open()?;
//! let mut bytes = 0;
//! capture.for_each(|packet| {
//!     bytes += u64::from(packet.len);
//!     if bytes < 1_000_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
//! })?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod block;
mod capture;
mod describe;
pub mod devices;
mod engines;
mod error;
mod filter;
pub mod hook;
pub mod index;
mod lookup;
mod native;
mod options;
pub mod send;
mod source;
pub mod stat;
mod stats;

pub use block::{Block, Packets};
pub use capture::{Capture, CaptureBuilder};
pub use describe::{Clock, Description, FilterPlace, KernelClock, Memory, Note, UserSpaceReason};
pub use engines::{
    Device, ENGINES, Engine, FileSource, Host, MAP_FILE, Processors, open, open_fanout, open_file,
    open_on, open_stream,
};
pub use error::{Error, Result};
pub use filter::{Filter, Matcher};
pub use options::{
    CaptureOptions, Direction, Fanout, FanoutMode, MAX_SNAPLEN, Mode, OptionError, Precision,
    SampleMode, Stage, TimestampSource,
};
pub use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
pub use ringtap_savefile::{
    BarePackets, Interface, Item, MapFile, Mapped, ReadError, ReadOptions, Visitor,
};
pub use source::{Companion, Delivery, Next, PROGRAM_PARTS, ProgramPart, Source, Waker};
pub use stats::{Dropped, Stats};

/// Reads a list of processors in the kernel's form, such as `0-3,5`.
///
/// # Errors
///
/// Where it is wrong, and how.
pub fn parse_cpu_list(
    text: &str,
) -> std::result::Result<Vec<usize>, ringtap_sys::sched::CpuListError> {
    text.parse::<ringtap_sys::sched::CpuList>()
        .map(|list| list.as_slice().to_vec())
}
