//! Receives the interface's packets in kernel threads, on processors that the user selects.

use ringtap_sys::napi::ReceiveThreads;

use super::error::{DumpError, UsageError};
use crate::cli::CaptureArgs;
use crate::notice::notice;
use crate::setup::setup;
use crate::values::FifoPriority;

/// Lets kernel threads receive, if processors were selected for them, until this is dropped.
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
    // A polling reader on the same processor must not delay them.
    let priority = args.priority.map(FifoPriority::next_above);
    let started = ReceiveThreads::start(device, &cpus.0, priority);
    let receiving = started.map_err(|source| setup("receive by threads", source))?;
    let count = receiving.count();
    let threads = if count == 1 { "thread" } else { "threads" };
    notice(format_args!(
        "{device}: packets are received by {count} {threads} of the kernel until the capture ends",
    ));
    Ok(Some(receiving))
}
