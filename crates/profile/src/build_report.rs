//! Builds a report from the measurements.

use std::collections::BTreeMap;

use ringtap_capture::{Mode, Precision, Stats, devices};
use ringtap_sys::cycles::Rate;
use ringtap_sys::perf::{Drained, Trigger};
use ringtap_sys::sched::online_cpus;

use crate::attribute::{Tally, Verdict};
use crate::plan::{Moment, Profile};
use crate::reader::Mark;
use crate::report::{
    Figure, Method, Origin, Packets, Part, Processor, Rates, ReaderClock, Report, Sampled,
    Sampling, Settings, Step, Unexplained, VERSION, ratio, to_f64,
};
use crate::traffic::Traffic;
use crate::{COMPONENTS, Component, own_symbols};

/// The share of lost packets above which the report warns about them.
const WORTH_TELLING: f64 = 0.01;

impl Profile<'_> {
    pub(crate) fn report(
        mut self,
        engine: &str,
        hook: &str,
        seen: &Seen,
        steps: Vec<Step>,
    ) -> Report {
        let seconds = (seen.end.at - seen.begin.at).as_secs_f64();
        let on_interface = seen.end.packets.saturating_sub(seen.begin.packets);
        let (first, last) = seen.reading();
        let reader_clock = self.reader_clock(&first, &last, on_interface);
        let sampling = seen.sampling(self.rate);
        let (mut components, unexplained, total) = match &sampling {
            Some(sampling) => self.by_samples(seen, sampling, on_interface),
            None => self.without_samples(&steps, &reader_clock),
        };
        if sampling.is_some() && own_symbols::application().is_none() {
            divide_reader(&mut components, &reader_clock);
        }
        if on_interface == 0 {
            self.cannot_tell
                .push("costs per packet: no packet came".to_owned());
        }
        let rates = seen.rates(seconds, on_interface, &first, &last);
        let packets = packets(on_interface, &first, &last);
        let mut report = Report {
            version: VERSION,
            engine: engine.to_owned(),
            hook: hook.to_owned(),
            device: self.name.clone(),
            driver: self.driver(),
            traffic: self.traffic(),
            settings: self.settings(),
            method: Method {
                sampling,
                ticks_per_ns: self.rate.per_nanosecond,
                constant_rate: self.rate.is_constant,
                application_by_address: own_symbols::application().is_some(),
                cannot_tell: Vec::new(),
            },
            seconds,
            packets,
            components,
            unexplained,
            total,
            rates,
            steps,
            reader_clock,
            advice: Vec::new(),
        };
        self.limits(&report);
        report.method.cannot_tell = self.cannot_tell;
        let info = devices::by_name(&self.name).ok();
        let own = self.plan.device.is_none();
        report.advice = crate::advice::of(&report, info.as_ref().filter(|_| !own));
        report
    }

    /// Adds the limits of the method itself.
    fn limits(&mut self, report: &Report) {
        if report.rates.interrupts_per_second.is_none() {
            self.cannot_tell
                .push(format!("interrupts: {} has none of its own", self.name));
        }
        if report.rates.packets_per_poll.is_some()
            || report.rates.receive_softirqs_per_second.is_some()
        {
            self.cannot_tell
                .push("polls and softirqs of this interface from those of others".to_owned());
        }
        let lost = ratio(
            to_f64(report.packets.dropped_ring.unwrap_or_default()),
            to_f64(report.packets.interface),
        );
        if lost > WORTH_TELLING {
            self.cannot_tell.push(format!(
                "what copying and reading cost where no packet is lost: {:.0} % found no room in the ring, were not \
                 copied, and count as packets",
                100.0 * lost
            ));
        }
        if report.engine == "packet" {
            self.cannot_tell.push(
                "this capture's packet socket from those of other programs on the same packets"
                    .to_owned(),
            );
        }
    }

    fn traffic(&self) -> String {
        if self.plan.device.is_some() {
            return "as found on the interface".to_owned();
        }
        let Traffic {
            size,
            per_second,
            flows,
            ..
        } = self.plan.traffic;
        let rate = per_second.map_or_else(
            || "as many as can be".to_owned(),
            |rate| format!("{rate:.0} a second"),
        );
        format!("generated in namespaces of its own: {size} bytes, {rate}, flows: {flows}")
    }

    fn settings(&self) -> Settings {
        let options = &self.plan.options;
        let millis = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
        let busy = options.busy_poll.unwrap_or_default();
        Settings {
            filter: self
                .plan
                .filter
                .as_ref()
                .map_or_else(String::new, |filter| filter.expression().to_owned()),
            snaplen: options.snaplen,
            buffer: options.buffer,
            min_to_copy: options.min_to_copy,
            timeout_ms: millis,
            precision: match options.precision {
                Precision::Fine => "fine",
                Precision::Poll => "poll",
                Precision::Coarse => "coarse",
                Precision::None => "none",
            }
            .to_owned(),
            steals: options.mode == Mode::Steal,
            work_ns: self.plan.work,
            busy_poll_ns: u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn reader_clock(&self, first: &Mark, last: &Mark, on_interface: u64) -> ReaderClock {
        let usage = last.usage.since(first.usage);
        let ticks = last.totals.ticks.wrapping_sub(first.totals.ticks);
        let packets = last.totals.packets - first.totals.packets;
        let per = |nanos: u128, packets: u64| ratio(nanos_f64(nanos), to_f64(packets));
        ReaderClock {
            in_blocks_ns: ratio(to_f64(ticks) / self.rate.per_nanosecond, to_f64(packets)),
            user_ns: per(usage.user.as_nanos(), on_interface),
            system_ns: per(usage.system.as_nanos(), on_interface),
        }
    }

    fn by_samples(
        &self,
        seen: &Seen,
        sampling: &Sampling,
        on_interface: u64,
    ) -> (Vec<Part>, Unexplained, Figure) {
        let elapsed = nanos_f64((seen.end.at - seen.begin.at).as_nanos());
        let cpus = online_cpus().map_or(1, |cpus| cpus.as_slice().len());
        let times = seen.begin.time.zip(seen.end.time);
        let busy_ns = times.map(|(begin, end)| {
            let time = end.since(begin);
            let away = nanos_f64((time.idle + time.stolen).as_nanos());
            (elapsed * to_f64(cpus as u64) - away).max(0.0)
        });
        let sampled = Sampled {
            tally: &sampling.tally,
            lost: sampling.lost,
            period_ns: sampling.period_ns,
            own_ns: sampling.own_ns.unwrap_or_default(),
            packets: on_interface,
            busy_ns,
            ticks_per_ns: self.rate.per_nanosecond,
        };
        sampled.figures()
    }

    /// Returns the costs that are known without samples: those of the program's steps, and of the
    /// reader from the kernel's accounting.
    fn without_samples(
        &self,
        steps: &[Step],
        clock: &ReaderClock,
    ) -> (Vec<Part>, Unexplained, Figure) {
        let step = |stage: &str, alone: bool| {
            let step = steps.iter().find(|step| step.stage == stage)?;
            if alone { Some(step.run) } else { step.more }
        };
        let figure = |ns: f64| Figure::new(ns, ns, ns, self.rate.per_nanosecond);
        let has_baseline = steps.first().is_some_and(|step| step.stage == "none");
        let parts = COMPONENTS.map(|component| {
            let (ring, copy) = (step("ring", false), step("copy", false));
            let cost = match component {
                Component::Tap => step("hook", !has_baseline),
                Component::Filter => step("filter", false),
                Component::Timestamp => step("timestamp", false),
                Component::Copy => ring.zip(copy).map(|(ring, copy)| ring.plus(copy)),
                Component::Wake => Some(figure(clock.system_ns)),
                Component::Reader => Some(figure(clock.user_ns)),
                // The accounting does not separate reader and application.
                Component::Driver | Component::Stack | Component::Application => None,
            };
            let origin = match component {
                Component::Wake | Component::Reader => Origin::Accounting,
                _ => Origin::Differential,
            };
            Part {
                component,
                cost,
                share: None,
                origin: cost.map(|_| origin),
                samples: None,
            }
        });
        let mut parts: Vec<Part> = parts.into();
        let total: f64 = parts
            .iter()
            .filter_map(|part| part.cost)
            .map(|cost| cost.ns.max(0.0))
            .sum();
        for part in &mut parts {
            part.share = part.cost.map(|cost| ratio(cost.ns.max(0.0), total));
        }
        (parts, Unexplained::default(), figure(total))
    }
}

/// Divides the samples in user space between reader and application by the reader's own clock
/// readings: addresses do not separate them.
fn divide_reader(parts: &mut [Part], clock: &ReaderClock) {
    let mut readers = parts.iter();
    let reader = readers.find(|part| part.component == Component::Reader);
    let Some((cost, share)) = reader.and_then(|reader| Some((reader.cost?, reader.share))) else {
        return;
    };
    let inside = clock.in_blocks_ns.min(cost.ns);
    let scale = ratio(inside, cost.ns);
    let share = share.unwrap_or_default();
    let scaled = |cost: Figure, by: f64| Figure {
        ns: cost.ns * by,
        cycles: cost.cycles * by,
        low_ns: cost.low_ns * by,
        high_ns: cost.high_ns * by,
    };
    for part in parts.iter_mut() {
        match part.component {
            Component::Reader => {
                part.cost = Some(scaled(cost, 1.0 - scale));
                part.share = Some(share * (1.0 - scale));
            }
            Component::Application => {
                part.cost = Some(scaled(cost, scale));
                part.share = Some(share * scale);
                part.origin = Some(Origin::Accounting);
            }
            _ => {}
        }
    }
}

/// The samples taken so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) tally: Tally,
    pub(crate) drained: Drained,
    pub(crate) processors: BTreeMap<u32, Processor>,
}

impl Gathered {
    pub(crate) fn add(&mut self, cpu: u32, verdict: Verdict) {
        self.tally.add(verdict);
        let processor = self.processors.entry(cpu).or_insert(Processor {
            cpu,
            ..Processor::default()
        });
        processor.all += 1;
        processor.busy += u64::from(verdict != Verdict::Idle);
        match verdict {
            Verdict::On(Component::Reader | Component::Application) => processor.reader += 1,
            Verdict::On(component) if component != Component::Wake => processor.kernel += 1,
            _ => {}
        }
    }
}

/// All measurements of a profile.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
    pub(crate) trigger: Option<Trigger>,
    /// The time of a sample itself, in nanoseconds.
    pub(crate) own_ns: Option<f64>,
    pub(crate) sampled: Gathered,
    pub(crate) unnamed: Vec<(String, u64)>,
    pub(crate) functions: Vec<(Component, Vec<(String, u64)>)>,
    pub(crate) has_symbols: bool,
    /// Polls that returned packets, and the number of those packets.
    pub(crate) polls: Option<(u64, u64)>,
    /// System calls of the reader, and the packets of that time.
    pub(crate) calls: Option<(u64, u64)>,
    /// The reader's state at the end of each phase.
    pub(crate) marks: Vec<Mark>,
}

impl Seen {
    /// Returns the reader's state at the start and the end of the samples.
    fn reading(&self) -> (Mark, Mark) {
        let first = self.marks.first().copied().unwrap_or_default();
        (first, self.marks.get(1).copied().unwrap_or(first))
    }

    fn sampling(&self, rate: Rate) -> Option<Sampling> {
        let trigger = self.trigger?;
        let event = match trigger {
            Trigger::Cycles { .. } => "cycles",
            Trigger::Clock { .. } => "cpu-clock",
        };
        let period_ns = period_ns(trigger, rate);
        Some(Sampling {
            event: event.to_owned(),
            period_ns,
            own_ns: self.own_ns,
            tally: self.sampled.tally.clone(),
            lost: self.sampled.drained.lost,
            throttled: self.sampled.drained.throttled,
            processors: self.sampled.processors.values().copied().collect(),
            has_symbols: self.has_symbols,
            functions: self.functions.clone(),
            unnamed: self.unnamed.clone(),
        })
    }

    fn rates(&self, seconds: f64, on_interface: u64, first: &Mark, last: &Mark) -> Rates {
        let between = |begin: Option<u64>, end: Option<u64>| {
            let (begin, end) = begin.zip(end)?;
            Some(ratio(to_f64(end.saturating_sub(begin)), seconds))
        };
        let packets = last.totals.packets - first.totals.packets;
        let blocks = last.totals.blocks - first.totals.blocks;
        let per = |count: u64, of: u64| (of > 0).then(|| ratio(to_f64(count), to_f64(of)));
        Rates {
            packets_per_second: ratio(to_f64(on_interface), seconds),
            interrupts_per_second: between(self.begin.interrupts, self.end.interrupts),
            receive_softirqs_per_second: between(self.begin.softirqs, self.end.softirqs),
            packets_per_poll: self.polls.and_then(|(polls, packets)| per(packets, polls)),
            system_calls_per_packet: self.calls.and_then(|(calls, packets)| per(calls, packets)),
            wake_ups_per_packet: ratio(
                to_f64(last.usage.since(first.usage).waits),
                to_f64(on_interface),
            ),
            packets_per_block: per(packets, blocks),
        }
    }
}

/// Returns the nanoseconds between two samples of a busy processor.
pub(crate) fn period_ns(trigger: Trigger, rate: Rate) -> f64 {
    match trigger {
        Trigger::Cycles { period } => to_f64(period) / rate.per_nanosecond,
        Trigger::Clock { period } => to_f64(period),
    }
}

fn packets(on_interface: u64, first: &Mark, last: &Mark) -> Packets {
    let since = |count: fn(&Stats) -> Option<u64>| {
        Some(count(&last.stats)?.saturating_sub(count(&first.stats)?))
    };
    Packets {
        interface: on_interface,
        captured: last.totals.packets - first.totals.packets,
        captured_bytes: last.totals.bytes - first.totals.bytes,
        dropped_ring: since(|stats| stats.dropped.ring),
        dropped_hook: since(|stats| stats.dropped.hook),
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes")]
fn nanos_f64(nanos: u128) -> f64 {
    nanos as f64
}
