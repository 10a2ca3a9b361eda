//! Sends built packets repeatedly until there are enough.

use ringtap_capture::Timestamp;
use ringtap_send::{Outgoing, Sender, Timing};

use super::progress::Progress;
use super::replay::Outcome;
use super::summary::report_so_far;
use super::{Failure, Summary};
use crate::cli::SendArgs;
use crate::signals::Requests;

/// The number of packets between two checks of the user's requests, at top speed and at a rate.
const CHUNK: u64 = 65_536;
const TIMED_CHUNK: u64 = 64;

/// Sends the packets in turn, as many as requested; one round without a request.
pub(super) fn send(
    args: &SendArgs,
    packets: &[Vec<u8>],
    sender: &mut Sender,
    timing: Timing,
    requests: &Requests,
) -> Result<Outcome, Failure> {
    let back_end = sender.back_end().0;
    let is_timed = timing != Timing::TopSpeed;
    let chunk = if is_timed { TIMED_CHUNK } else { CHUNK };
    let count = count(args, packets);
    let progress = Progress::new(Some(count));
    let mut run = sender.begin(timing)?;
    let mut turn = packets.iter().cycle().map(|packet| Outgoing {
        timestamp: Timestamp::default(),
        data: packet,
    });
    let mut left = count;
    while left > 0 {
        let chunk = chunk.min(left);
        let size = usize::try_from(chunk).unwrap_or(usize::MAX);
        if run.send(turn.by_ref().take(size)).is_break() {
            break;
        }
        left -= chunk;
        progress.at(count - left);
        if requests.take_report() {
            report_so_far(&run.progress());
        }
    }
    drop(progress);
    Ok(Outcome {
        summary: Summary::new(run.finish(), back_end, is_timed),
        read_error: None,
    })
}

/// Returns how many packets are sent: each once per round, or the requested number.
pub(super) fn count(args: &SendArgs, packets: &[Vec<u8>]) -> u64 {
    let rounds = match args.rounds {
        0 => u64::MAX,
        rounds => rounds.saturating_mul(packets.len() as u64),
    };
    match args.common.count {
        // A count without a number of rounds takes as many rounds as it needs.
        Some(count) if args.rounds == 1 => count,
        Some(count) => count.min(rounds),
        None => rounds,
    }
}
