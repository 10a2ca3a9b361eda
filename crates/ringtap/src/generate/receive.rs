//! The receiver: counts packets with marks.

use std::time::{Duration, Instant};

use ringtap_capture::{Block, CaptureOptions, Direction, Filter, Source, open_readers};
use ringtap_send::read_mark;
use serde_json::json;

use super::tally::Tally;
use crate::cli::GenArgs;
use crate::live::{LiveRun, Receiver};
use crate::notice::{counted, notice, raw};
use crate::rights::{NamedFiles, Needs, Rights};
use crate::send::{Failure, place};
use crate::signals::Requests;

/// The minimum length of a generated packet; its mark is checked here.
const EXPRESSION: &str =
    "udp and ((ip and ether[42:2] = 0x7274) or (ip6 and ether[62:2] = 0x7274))";
/// The offset of the mark's end.
const SNAPLEN: u32 = 80;
const BUFFER: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_millis(100);

/// Counts until enough packets have come, the time is over, or a signal comes.
pub(super) fn receive(args: &GenArgs) -> Result<(), Failure> {
    place(&args.common)?;
    let options = CaptureOptions::default()
        .snaplen(SNAPLEN)
        .buffer(BUFFER)
        .timeout(TIMEOUT)
        .direction(Direction::In)
        .mode(args.mode)
        .force(args.force);
    let filter = Filter::new(EXPRESSION);
    let rights = Rights::begin(&args.common.rights, NamedFiles::default(), None)?;
    let mut readers = open_readers(&args.interface, &options, Some(&filter), 1)?;
    let description = readers.first().describe();
    rights.entrust(&mut readers)?;
    rights.relinquish(&[], Needs::of_devices())?;
    let requests = Requests::default();
    requests.watch(readers.wakers())?;
    notice(format_args!(
        "receiving on {} (engine {})",
        description.device, description.engine
    ));
    if args.common.explain {
        raw(&description);
        raw(rights.explain());
    }
    let mut count = Count {
        args,
        requests: requests.clone(),
        end: args.duration.map(|duration| Instant::now() + duration),
        tally: Tally::default(),
    };
    let live = LiveRun::new(&readers, requests, &options);
    let source = &mut *readers.sources[0];
    let result = live.read(source, &mut count);
    report(args, source, &count.tally);
    result
}

/// The counters, and the condition for the end.
struct Count<'a> {
    args: &'a GenArgs,
    requests: Requests,
    end: Option<Instant>,
    tally: Tally,
}

impl Receiver for Count<'_> {
    type Error = Failure;

    fn look(&mut self, _: &mut dyn Source) -> Result<bool, Failure> {
        if self.requests.take_report() {
            raw(text(&self.tally));
        }
        if self.end.is_some_and(|end| Instant::now() >= end) && !self.requests.stop() {
            self.requests.ask_stop();
        }
        Ok(false)
    }

    fn block(&mut self, block: &Block<'_>) -> Result<bool, Failure> {
        for packet in block.packets() {
            if let Some(mark) = read_mark(packet.data) {
                let time = packet.timestamp.as_nanos();
                self.tally.count(mark, time, packet.len);
            }
        }
        let count = self.args.common.count;
        Ok(count.is_some_and(|count| self.tally.received() >= count))
    }
}

fn report(args: &GenArgs, source: &mut dyn Source, tally: &Tally) {
    let dropped = source.stats().ok().map(|stats| stats.dropped);
    let at = |layer: fn(&ringtap_capture::Dropped) -> Option<u64>| dropped.as_ref().and_then(layer);
    let (ring, hook) = (at(|dropped| dropped.ring), at(|dropped| dropped.hook));
    if args.common.json_stats {
        let runs: Vec<_> = tally
            .runs()
            .iter()
            .map(super::tally::RunTally::json)
            .collect();
        let value = json!({
            "received": tally.received(),
            "runs": runs,
            "other_runs": tally.beyond,
            "dropped": { "ring": ring, "hook": hook },
        });
        raw(format_args!("{value}\n"));
        return;
    }
    raw(text(tally));
    for (layer, count) in [("in the ring", ring), ("at the hook", hook)] {
        // Such packets are among the lost ones.
        if let Some(count) = count.filter(|&count| count > 0) {
            let count = counted(count, "packet");
            raw(format_args!("{count} dropped {layer} of this receiver\n"));
        }
    }
}

fn text(tally: &Tally) -> String {
    let runs = tally.runs().iter().map(super::tally::RunTally::text);
    let mut text: String = runs.collect();
    if tally.runs().is_empty() {
        text.push_str("no generated packet came\n");
    }
    if tally.beyond > 0 {
        let count = counted(tally.beyond, "packet");
        text.push_str(&format!("{count} of further runs\n"));
    }
    text
}
