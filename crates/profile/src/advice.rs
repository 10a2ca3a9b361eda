//! The advice of a profile, in plain words: what dominates and what would help. If that is a setting, it can
//! be tried ([`crate::trials`]).

use ringtap_capture::devices::{DeviceInfo, Effect as Offload};

use crate::report::{Advice, Processor, Report, ratio, to_f64};
use crate::{COMPONENTS, Component, Trial};

/// A component with a smaller share is not worth advice.
const WORTH: f64 = 0.05;
/// More wake-ups per packet than this are many.
const MANY_WAKE_UPS: f64 = 0.05;
/// A processor busier than this is full.
const FULL: f64 = 0.9;
/// How long a busy reader looks for packets before it sleeps, in microseconds.
const BUSY: u32 = 200;
/// Enough of a packet for its headers, as in `ringtap flow`.
const HEADERS: u32 = 96;

/// Returns the advice of a report. `interface` is given for one of the host's.
#[must_use]
pub fn of(report: &Report, interface: Option<&DeviceInfo>) -> Vec<Advice> {
    if report.packets.interface == 0 {
        let text = "No packets were captured. Without -i, ringtap generates packets of its own.";
        return vec![Advice::words(text)];
    }
    // With generated packets, the advice is for an interface yet to be named.
    let device = interface.map_or_else(|| "DEV".to_owned(), |interface| interface.name.to_string());
    let mut advice = Vec::new();
    advice.extend(dominant(report, &device));
    advice.extend(settings(report));
    advice.extend(placement(report, interface));
    if let Some(interface) = interface {
        advice.extend(offloads(interface));
    }
    for advice in &mut advice {
        advice.setting = advice.trial.map(|trial| trial.option(&device));
    }
    advice
}

/// Advises on the most expensive component.
fn dominant(report: &Report, device: &str) -> Option<Advice> {
    let share = |component| part_share(report, component);
    let most = COMPONENTS
        .into_iter()
        .max_by(|a, b| share(*a).total_cmp(&share(*b)))?;
    let percent = 100.0 * share(most);
    let why = match most {
        Component::Driver => {
            "the driver's and the interrupts' work is the same with any capture; larger batches per \
                              poll (interrupt coalescing: ethtool -C) make it cheaper per packet"
        }
        Component::Stack if ends_at_driver(report) => {
            "packets end before the stack here: it is what other interfaces of this driver receive, and the rest of \
                             the driver's frames"
        }
        Component::Stack => &format!(
            "the host's stack has these packets too; where nobody on this host needs them, a tap at \
                             XDP that steals them (-i xdp:{device} --mode steal) leaves this out altogether"
        ),
        Component::Tap => "the tap itself; compare the engines (--compare)",
        Component::Filter => "the filter; ringtap filter --explain shows the cost of its steps",
        Component::Timestamp => "reading the clock",
        Component::Copy => "copying packets; a smaller snapshot length copies less",
        Component::Wake => "waking the reader and its system calls; larger deliveries make fewer",
        Component::Reader => {
            "walking the ring, where packets that have left the cache come back from memory: a reader \
                              that keeps up, on a processor that shares a cache with the receiving one, and a ring no \
                              larger than bursts need, make it cheaper"
        }
        Component::Application => "the application, which no capture makes cheaper",
    };
    Some(Advice::words(format!(
        "{} dominates with {percent:.0} %: {why}.",
        capital(most.title())
    )))
}

/// Returns whether packets do not reach the host's stack.
fn ends_at_driver(report: &Report) -> bool {
    match report.engine.as_str() {
        "xsk" => true,
        "xdp" => report.settings.steals,
        _ => false,
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

fn part_share(report: &Report, component: Component) -> f64 {
    let part = report.part(component);
    part.and_then(|part| part.share).unwrap_or_default()
}

/// Advises on settings of the capture.
fn settings(report: &Report) -> Vec<Advice> {
    let mut advice = Vec::new();
    let settings = &report.settings;
    let is_tap = matches!(report.engine.as_str(), "tcx" | "xdp");
    let share = |component| 100.0 * part_share(report, component);
    let worth = |component| part_share(report, component) >= WORTH;
    if is_tap && settings.precision == "fine" && worth(Component::Timestamp) {
        let percent = share(Component::Timestamp);
        let text = format!(
            "Reading the clock takes {percent:.0} %. Where the time of the last tick (1 to 10 ms) is precise enough, \
             it costs nearly nothing."
        );
        advice.push(Advice::setting(Trial::CoarseClock, text));
    }
    let mean = ratio(
        to_f64(report.packets.captured_bytes),
        to_f64(report.packets.captured),
    );
    if worth(Component::Copy) && mean > f64::from(HEADERS) * 1.5 && settings.snaplen > HEADERS {
        let text = format!(
            "{mean:.0} bytes of each packet are copied, which takes {:.0} %. Where headers are enough, copy only those.",
            share(Component::Copy)
        );
        advice.push(Advice::setting(Trial::Snaplen(HEADERS), text));
    }
    if is_tap && (worth(Component::Wake) || report.rates.wake_ups_per_packet > MANY_WAKE_UPS) {
        let more = settings.min_to_copy.max(1 << 14).saturating_mul(8);
        let text = format!(
            "{:.3} wake-ups a packet: larger deliveries make fewer, and packets wait longer for theirs.",
            report.rates.wake_ups_per_packet
        );
        advice.push(Advice::setting(Trial::MinToCopy(more), text));
        if settings.busy_poll_ns == 0 {
            let text = "A reader that looks for packets before it sleeps (busy polling) is woken less, and keeps its \
                        processor busy where there are none.";
            advice.push(Advice::setting(Trial::BusyPoll(BUSY), text));
        }
    }
    let lost = report.packets.dropped_ring.unwrap_or_default();
    if lost > 0 {
        let text = format!(
            "{lost} packets found no room in the ring. A larger one rides out longer bursts; it does not \
                            help a reader that is too slow all the time."
        );
        let larger = settings.buffer.saturating_mul(4);
        advice.push(Advice::setting(Trial::Buffer(larger), text));
    } else if worth(Component::Reader) && settings.buffer > 4 << 20 {
        let text = "Nothing was lost, and the reader takes a part: a smaller ring stays in the processor's cache.";
        advice.push(Advice::setting(Trial::Buffer(4 << 20), text));
    }
    advice
}

/// Advises on the use of processors.
fn placement(report: &Report, interface: Option<&DeviceInfo>) -> Vec<Advice> {
    let mut advice = Vec::new();
    let sampling = report.method.sampling.as_ref();
    let all = sampling
        .map(|sampling| &sampling.processors[..])
        .unwrap_or_default();
    let receiving = || all.iter().filter(|cpu| cpu.kernel > 0);
    let total: u64 = receiving().map(|cpu| cpu.kernel).sum();
    let Some(most) = receiving().max_by_key(|cpu| cpu.kernel) else {
        return advice;
    };
    let is_full = ratio(to_f64(most.busy), to_f64(most.all)) > FULL;
    let is_alone = ratio(to_f64(most.kernel), to_f64(total)) > FULL;
    let others = all.iter().filter(|cpu| cpu.cpu != most.cpu && cpu.cpu < 64);
    let mask = others.fold(0, |mask, cpu| mask | 1_u64 << cpu.cpu);
    // At XDP, packets are captured before RPS distributes them.
    let can_hand_on = mask != 0 && matches!(report.engine.as_str(), "tcx" | "packet");
    if is_full && is_alone && interface.is_none() && can_hand_on {
        let text = format!(
            "Processor {} makes and receives everything and is full: RPS hands what is received to others, which \
             costs more in all and may deliver more.",
            most.cpu
        );
        advice.push(Advice::setting(Trial::Rps(mask), text));
    }
    if is_full && is_alone && all.len() > 1 && interface.is_some() {
        let queues = interface
            .and_then(|interface| interface.rx_queues)
            .unwrap_or(1);
        if queues > 1 {
            advice.push(Advice::words(format!(
                "Processor {} receives nearly everything and is full, though there are {queues} queues: spread \
                 flows over them (RSS: ethtool -X, and interrupts over processors). It is not tried: flows go \
                 where the adapter's keys send them.",
                most.cpu
            )));
        }
        if can_hand_on {
            let text = format!(
                "Processor {} receives everything and is full: RPS hands packets to other processors.",
                most.cpu
            );
            advice.push(Advice::setting(Trial::Rps(mask), text));
        }
    }
    advice.extend(reader_placement(report, all, most, is_full));
    advice
}

/// Advises on the reader's processor, given the one that receives most.
fn reader_placement(
    report: &Report,
    all: &[Processor],
    most: &Processor,
    is_full: bool,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    let readers: u64 = all.iter().map(|cpu| cpu.reader).sum();
    let beside = ratio(to_f64(most.reader), to_f64(readers));
    if is_full && readers > 0 && beside > 0.5 && all.len() > 1 {
        let text = format!(
            "The reader runs on processor {}, which also receives, and is full: put it elsewhere.",
            most.cpu
        );
        let elsewhere = all.iter().find(|cpu| cpu.cpu != most.cpu);
        advice.extend(elsewhere.map(|cpu| Advice::setting(on(cpu.cpu), text)));
    } else if readers > 0 && beside < 0.1 && part_share(report, Component::Reader) >= WORTH {
        let text = format!(
            "The reader is not on processor {}, which receives: packets go from one cache to another. On the same \
             one they don't, but share its time.",
            most.cpu
        );
        advice.push(Advice::setting(on(most.cpu), text));
    }
    let moves = all
        .iter()
        .filter(|cpu| ratio(to_f64(cpu.reader), to_f64(readers)) > 0.1)
        .count();
    // Earlier advice may have named the processor already.
    let is_placed = advice
        .iter()
        .any(|advice| matches!(advice.trial, Some(Trial::Cpu(_))));
    if moves > 1 && !is_placed {
        let text = format!(
            "The reader moved between {moves} processors: one of its own keeps its cache warm."
        );
        let its = all.iter().max_by_key(|cpu| cpu.reader);
        advice.extend(its.map(|cpu| Advice::setting(on(cpu.cpu), text)));
    }
    advice
}

/// Returns a trial with the reader on a processor.
fn on(cpu: u32) -> Trial {
    Trial::Cpu(usize::try_from(cpu).unwrap_or_default())
}

/// Warns of offloads that make a capture differ from the wire.
fn offloads(interface: &DeviceInfo) -> Vec<Advice> {
    let falsifying = interface.active_offloads().into_iter().filter(|offload| {
        matches!(
            offload.effect,
            Offload::ReceivedMerged | Offload::SentUncut | Offload::SentUnchecked
        )
    });
    let advice = falsifying.map(|offload| {
        let names: Vec<String> = offload.features.iter().map(ToString::to_string).collect();
        let text = format!(
            "{}: on, so that {}. Costs per packet are then of the interface's packets, not of those that are captured. \
             ethtool -K {} switches it off.",
            names.join(", "), offload.effect.clause(), interface.name
        );
        if offload.effect == Offload::ReceivedMerged {
            Advice::setting(Trial::NoGro, text)
        } else {
            Advice::words(text)
        }
    });
    advice.collect()
}
