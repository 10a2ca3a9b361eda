//! Streams packets of files, in their order: memory does not grow with the files.

use std::io;
use std::ops::Range;
use std::path::Path;

use ringtap_capture::{
    Block, FileSource, LinkType, Next, Packet, ReadOptions, Source, Timestamp, open_stream,
};
use ringtap_craft::Rule;
use ringtap_send::{Outgoing, SendRun, Sender, Timing};

use super::gaps::Gaps;
use super::progress::Progress;
use super::{Failure, Guard, Summary};
use crate::cli::SendArgs;
use crate::expression;
use crate::input::{may_be_silent, of_opened};
use crate::notice::{counted, raw};
use crate::rights;
use crate::signals::Requests;

/// The number of packets between two checks of the user's requests.
const CHUNK: usize = 1024;
/// The number of packets that are changed together.
const CHANGED: usize = 256;

/// The end of a run.
pub(super) struct Outcome {
    pub(super) summary: Summary,
    /// The file is damaged after the packets that were sent.
    pub(super) read_error: Option<ringtap_capture::Error>,
}

/// Sends the packets of all files, as many times as requested.
pub(super) fn send(
    args: &SendArgs,
    sender: &mut Sender,
    timing: Timing,
    guard: Guard,
    requests: &Requests,
) -> Result<Outcome, Failure> {
    check_standard_input(args)?;
    check_files(args)?;
    let (link_type, back_end) = (sender.link_type(), sender.back_end().0);
    let device = sender.device().to_owned();
    let mut replay = Replay {
        args,
        link_type,
        run: sender.begin(timing)?,
        requests,
        progress: Progress::new(total_bytes(args)),
        begun_bytes: 0,
        is_timed: timing != Timing::TopSpeed,
        changed: Changed::default(),
        unfixed: 0,
        select: Select {
            gaps: Gaps::new(timing, args.max_gap),
            guard,
            suitable: Vec::new(),
            left: args.common.count.unwrap_or(u64::MAX),
            cut: 0,
            other_link_type: 0,
            refused: None,
        },
    };
    let read_error = replay.all_rounds().err();
    let (select, unfixed) = (replay.select, replay.unfixed);
    let report = replay.run.finish();
    select.gaps.report_invalid();
    if let Some(refused) = select.refused {
        return Err(refused);
    }
    let other_link_type = select.other_link_type;
    if other_link_type > 0 && report.packets == 0 && report.error.is_none() {
        let expected = link_type.to_string();
        return Err(Failure::LinkType { device, expected });
    }
    Ok(Outcome {
        summary: Summary {
            report,
            back_end,
            other_link_type,
            cut: select.cut,
            unfixed,
            shortened: select.gaps.shortened,
            is_timed: timing != Timing::TopSpeed,
        },
        read_error,
    })
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn check_standard_input(args: &SendArgs) -> Result<(), Failure> {
    let inputs = args.read.iter().filter(|path| is_standard_input(path));
    let inputs = inputs.count() as u64;
    if inputs == 0 || inputs == 1 && args.rounds == 1 {
        return Ok(());
    }
    let times = match args.rounds {
        0 => "without end".to_owned(),
        rounds => (rounds * inputs).to_string(),
    };
    let name = "standard input".to_owned();
    Err(Failure::Again { name, times })
}

/// Opens each file once before the first packet is sent, so that an invalid file or filter is found early.
fn check_files(args: &SendArgs) -> Result<(), Failure> {
    for path in args.read.iter().filter(|path| !may_be_silent(path)) {
        open(path, args)?;
    }
    Ok(())
}

/// Returns the bytes of all files in all rounds, if known.
fn total_bytes(args: &SendArgs) -> Option<u64> {
    if args.rounds == 0 || args.read.iter().any(|path| is_standard_input(path)) {
        return None;
    }
    let sizes = args.read.iter().map(|path| rights::look(path).ok());
    let sizes = sizes.map(|kind| kind.map(|kind| kind.size));
    sizes.sum::<Option<u64>>()?.checked_mul(args.rounds)
}

/// The state of a replay.
struct Replay<'a> {
    args: &'a SendArgs,
    link_type: LinkType,
    run: SendRun<'a>,
    requests: &'a Requests,
    progress: Progress,
    /// The bytes of finished files.
    begun_bytes: u64,
    is_timed: bool,
    changed: Changed,
    unfixed: u64,
    select: Select,
}

/// The changed packets, in memory that is used again.
#[derive(Default)]
struct Changed {
    bytes: Vec<u8>,
    packets: Vec<(Timestamp, Range<usize>)>,
    frame: Vec<u8>,
}

/// Whether to continue.
type Flow = std::ops::ControlFlow<()>;

impl Replay<'_> {
    fn all_rounds(&mut self) -> Result<(), ringtap_capture::Error> {
        let mut round = 0;
        while self.args.rounds == 0 || round < self.args.rounds {
            round += 1;
            let before = self.run.progress().packets;
            for path in &self.args.read {
                self.run.restart_times();
                self.select.gaps.restart();
                if self.file(path)?.is_break() {
                    return Ok(());
                }
            }
            // Nothing to send, endlessly.
            if self.run.progress().packets == before {
                return Ok(());
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<Flow, ringtap_capture::Error> {
        let mut source = open(path, self.args)?;
        self.select.suitable.clear();
        loop {
            let suitable = &mut self.select.suitable;
            let interfaces = source.interfaces().iter().skip(suitable.len());
            suitable.extend(interfaces.map(|interface| interface.link_type == self.link_type));
            let position = source.reader().input_offset();
            match source.next()? {
                Next::Block(block) if self.block(&block, position).is_break() => {
                    return Ok(Flow::Break(()));
                }
                Next::End => break,
                _ => {}
            }
        }
        self.begun_bytes += source.reader().input_offset();
        Ok(Flow::Continue(()))
    }

    fn block(&mut self, block: &Block<'_>, position: u64) -> Flow {
        let is_changed = !self.args.rewrite.is_empty() || self.args.fix_checksums;
        let mut packets = block.packets().peekable();
        let begun = self.run.progress();
        while packets.peek().is_some() {
            self.show(position, begun);
            if self.select.left == 0 {
                return Flow::Break(());
            }
            // At a slow rate, packets are sent one by one if somebody watches.
            let chunk = match (is_changed, self.is_timed && self.progress.is_shown()) {
                (_, true) => 1,
                (true, false) => CHANGED,
                (false, false) => CHUNK,
            };
            let chunk = packets.by_ref().take(chunk);
            if is_changed {
                self.send_changed(chunk)?;
            } else {
                self.send_plain(chunk)?;
            }
        }
        Flow::Continue(())
    }

    /// Sends directly from the file's bytes.
    fn send_plain<'p>(&mut self, packets: impl Iterator<Item = Packet<'p>>) -> Flow {
        let Self { run, select, .. } = self;
        run.send(packets.map_while(|packet| select.take(&packet)).flatten())?;
        self.unless_refused()
    }

    /// Sends changed copies.
    fn send_changed<'p>(&mut self, packets: impl Iterator<Item = Packet<'p>>) -> Flow {
        let select = &mut self.select;
        self.changed.clear();
        for packet in packets.map_while(|packet| select.take(&packet)).flatten() {
            let is_fixed = self
                .changed
                .add(packet, &self.args.rewrite, self.args.fix_checksums);
            self.unfixed += u64::from(!is_fixed);
        }
        self.run.send(self.changed.packets())?;
        self.unless_refused()
    }

    fn unless_refused(&self) -> Flow {
        match self.select.refused {
            Some(_) => Flow::Break(()),
            None => Flow::Continue(()),
        }
    }

    /// Handles a block. `position` is its place in the file, `begun` the packets sent before it.
    fn show(&self, position: u64, begun: ringtap_send::Progress) {
        /// The size of a packet header in a pcap file, in bytes.
        const RECORD: u64 = 16;
        let so_far = self.run.progress();
        if self.requests.take_report() {
            raw(format_args!(
                "{}, {} sent so far, {:.3} s\n",
                counted(so_far.packets, "packet"),
                counted(so_far.bytes, "byte"),
                so_far.elapsed.as_secs_f64()
            ));
        }
        if self.progress.is_shown() {
            let packets = (so_far.packets - begun.packets) * RECORD;
            let inside = so_far.bytes - begun.bytes + packets;
            self.progress.at(self.begun_bytes + position + inside);
            let packets = counted(so_far.packets, "packet");
            self.progress.message(packets);
        }
    }
}

/// Selects the packets to send.
struct Select {
    gaps: Gaps,
    guard: Guard,
    /// Whether the packets of each interface of the file can be sent.
    suitable: Vec<bool>,
    /// The number of packets that remain.
    left: u64,
    cut: u64,
    other_link_type: u64,
    /// The consent that was missing.
    refused: Option<Failure>,
}

impl Select {
    /// Returns the packet if it is to be sent. `None` once there are no more to send.
    #[inline]
    fn take<'p>(&mut self, packet: &Packet<'p>) -> Option<Option<Outgoing<'p>>> {
        if self.left == 0 {
            return None;
        }
        let interface = usize::try_from(packet.interface).unwrap_or(usize::MAX);
        if !self.suitable.get(interface).copied().unwrap_or(false) {
            self.other_link_type += 1;
            return Some(None);
        }
        let timestamp = self.gaps.time(packet.timestamp);
        if let Err(refused) = self.guard.check(timestamp) {
            self.refused = Some(refused);
            return None;
        }
        self.left -= 1;
        self.cut += u64::from((packet.data.len() as u64) < u64::from(packet.len));
        Some(Some(Outgoing {
            timestamp,
            data: packet.data,
        }))
    }
}

impl Changed {
    fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }

    /// Adds a changed copy. Returns false if a checksum could not be computed.
    fn add(&mut self, packet: Outgoing<'_>, rules: &[Rule], fix: bool) -> bool {
        self.frame.clear();
        self.frame.extend_from_slice(packet.data);
        ringtap_craft::apply(rules, &mut self.frame);
        let is_fixed = !fix || ringtap_craft::fix_checksums(&mut self.frame);
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&self.frame);
        self.packets
            .push((packet.timestamp, begin..self.bytes.len()));
        is_fixed
    }

    fn packets(&self) -> impl Iterator<Item = Outgoing<'_>> {
        self.packets.iter().map(|(timestamp, range)| Outgoing {
            timestamp: *timestamp,
            data: &self.bytes[range.clone()],
        })
    }
}

fn open(path: &Path, args: &SendArgs) -> Result<FileSource, ringtap_capture::Error> {
    let filter = expression::filter(args.filter.join(" "), args.extended);
    let options = ReadOptions::default();
    if is_standard_input(path) {
        let name = "standard input";
        return open_stream(Box::new(io::stdin()), name, &options, filter.as_ref());
    }
    of_opened(path, rights::read_blocking(path), &options, filter.as_ref())
}
