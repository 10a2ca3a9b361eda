//! Where the interface's packets are received: by threads of the kernel on processors of the user's choice.

use ringtap_sys::napi::ReceiveThreads;

use super::error::{DumpError, UsageError};
use crate::cli::CaptureArgs;
use crate::notice::notice;
use crate::setup::setup;
use crate::values::FifoPriority;

/// Has such threads receive, where they were given processors, until this is dropped.
pub(super) fn receive_by_threads(
    args: &CaptureArgs,
    device: &str,
) -> Result<Option<ReceiveThreads>, DumpError> {
    let Some(cpus) = &args.packet_cpu else {
        return Ok(None);
    };
    if device == "any" {
        return Err(DumpError::Usage(UsageError::PacketCpuOfAny));
    }
    // A reader of the same processor that polls must not keep packets from it.
    let priority = args.priority.map(FifoPriority::next_above);
    let started = ReceiveThreads::start(device, &cpus.0, priority);
    let receiving = started.map_err(|source| setup("receive by threads", source))?;
    let count = receiving.count();
    let threads = if count == 1 { "thread" } else { "threads" };
    notice(format_args!(
        "{device}: packets are received by {count} {threads} of the kernel until the capture ends; should it be killed, \
         \"echo 0 > /sys/class/net/{device}/threaded\" ends that",
    ));
    Ok(Some(receiving))
}
