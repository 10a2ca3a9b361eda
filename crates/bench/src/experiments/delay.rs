//! The delay of packets at a low rate, with timeouts and in immediate mode, against tcpdump. Each packet
//! carries the time when it was sent.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Next, Packet, ReadOptions, Source, open, open_stream};
use ringtap_lab::Need;
use ringtap_lab::netns::{Side, VethPair};
use ringtap_sys::packet::inject::Injector;

use crate::results::Axis;
use crate::session::{Done, Session};

const PACKETS: usize = 1000;
const QUICK_PACKETS: usize = 150;
/// The time between two packets. It is no multiple of the timeouts, so that packets meet the timer at any
/// phase.
const SPACING: Duration = Duration::from_micros(2_137);
/// An EtherType for local experiments (IEEE 802), and the filter for it.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const FILTER: &str = "ether proto 0x88b5";
/// Ranks among 1000 sorted delays: this many are shorter.
const RANKS: [usize; 5] = [0, 500, 990, 999, 1000];

/// A way to capture.
#[derive(Clone, Debug)]
enum Way {
    Own(CaptureOptions),
    Tcpdump { immediate: bool },
}

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root], 1)?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let names = ["least", "median", "99 of 100", "999 of 1000", "most"];
    let metrics = names.map(|name| (name, "µs", 0));
    let has_tcpdump = session.peer("tcpdump").is_some();
    session.figure("From sending to delivery", Axis::names("delivery"), metrics);
    let pair = VethPair::new();
    let immediate = CaptureOptions::default().immediate(true);
    let spinning = immediate.clone().busy_poll(Some(Duration::from_millis(50)));
    let mut cases = vec![(
        "immediate".to_owned(),
        vec![
            ("ringtap", Way::Own(immediate)),
            ("ringtap, busy polling", Way::Own(spinning)),
        ],
    )];
    // The programs' defaults: ringtap dump delivers after at most 100 ms, tcpdump after a second.
    let standard = CaptureOptions::default().timeout(Duration::from_millis(100));
    cases.push((
        "no options: timeouts of 100 ms and of a second".to_owned(),
        vec![("ringtap", Way::Own(standard))],
    ));
    if has_tcpdump {
        for (number, immediate) in [true, false].into_iter().enumerate() {
            cases[number]
                .1
                .push(("tcpdump", Way::Tcpdump { immediate }));
        }
    }
    for millis in [1, 2, 10] {
        let options = CaptureOptions::default().timeout(Duration::from_millis(millis));
        let ways = vec![("ringtap", Way::Own(options))];
        cases.push((format!("timeout {millis} ms"), ways));
    }
    for (title, ways) in cases {
        let names: Vec<&str> = ways.iter().map(|(name, _)| *name).collect();
        session.case(&title, None, &names, names.len() - 1, |who| {
            let mut delays = match &ways[who].1 {
                Way::Own(options) => own(&pair, options, packets)?,
                Way::Tcpdump { immediate } => tcpdump(&pair, *immediate, packets)?,
            };
            delays.sort_unstable();
            let at = |rank: usize| delays[(delays.len() - 1) * rank / 1000].as_secs_f64() * 1e6;
            Ok(RANKS.map(at).to_vec())
        })?;
    }
    Ok(())
}

/// Measures a capture of this process, read by a thread that is placed as the options say.
pub(super) fn own(
    pair: &VethPair,
    options: &CaptureOptions,
    packets: usize,
) -> Done<Vec<Duration>> {
    let mut source = pair.right.run(|| open(&pair.right.device, options, None))?;
    measure(&mut *source, &pair.left, options, packets)
}

/// Measures `tcpdump -w -`, which writes each packet at once, through a pipe.
fn tcpdump(pair: &VethPair, immediate: bool, packets: usize) -> Done<Vec<Duration>> {
    let mut command = pair.right.namespace.command("tcpdump");
    command.args(["-i", &pair.right.device, "-U", "-w", "-", FILTER]);
    if immediate {
        command.arg("--immediate-mode");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Killed(command.spawn()?);
    let stream = child.0.stdout.take().ok_or("no output")?;
    let mut source = open_stream(Box::new(stream), "tcpdump", &ReadOptions::default(), None)?;
    measure(&mut source, &pair.left, &CaptureOptions::default(), packets)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends packets that carry the time, and compares it with that of their arrival.
fn measure(
    source: &mut dyn Source,
    from: &Side,
    placed: &CaptureOptions,
    packets: usize,
) -> Done<Vec<Duration>> {
    let index = from.namespace.netlink().index(&from.device)?;
    let injector = from.run(|| Injector::open(index))?;
    let epoch = Instant::now();
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || send(&injector, epoch, packets));
        // The sender must not inherit the reader's priority.
        let reader = scope.spawn(move || {
            placed.place_thread()?;
            receive(source, epoch, packets)
        });
        let received = reader.join().map_err(|_| "the reader panicked")?;
        let sent = sender.join().map_err(|_| "the sender panicked")?;
        sent.and(received)
    })
}

fn receive(source: &mut dyn Source, epoch: Instant, packets: usize) -> Done<Vec<Duration>> {
    let mut delays = Vec::with_capacity(packets);
    while delays.len() < packets {
        match source.next()? {
            Next::Block(block) => {
                let arrived = epoch.elapsed();
                delays.extend(block.packets().filter_map(|packet| delay(&packet, arrived)));
            }
            _ if epoch.elapsed() > limit(packets) => {
                return Err(format!("{} of {packets} packets came", delays.len()).into());
            }
            _ => {}
        }
    }
    Ok(delays)
}

/// Returns the time by which all have arrived: sending, and more than any timeout.
fn limit(packets: usize) -> Duration {
    SPACING * u32::try_from(packets).unwrap_or(u32::MAX) * 2 + Duration::from_secs(10)
}

fn send(injector: &Injector, epoch: Instant, packets: usize) -> Done {
    for _ in 0..packets {
        std::thread::sleep(SPACING);
        let nanos = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut frame = vec![0xff; 12];
        frame.extend(ETHERTYPE);
        frame.extend(nanos.to_be_bytes());
        frame.resize(60, 0);
        injector.send(&frame)?;
    }
    Ok(())
}

fn delay(packet: &Packet<'_>, arrived: Duration) -> Option<Duration> {
    let (header, rest) = packet.data.split_at_checked(14)?;
    let sent = Duration::from_nanos(u64::from_be_bytes(*rest.first_chunk()?));
    (header[12..] == ETHERTYPE).then(|| arrived.saturating_sub(sent))
}
