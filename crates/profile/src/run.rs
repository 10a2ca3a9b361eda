//! One profile: a capture opened, read, sampled, and taken apart.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::{
    CaptureOptions, Direction, Filter, Mode, Precision, Source, Stage, Stats, devices, open,
};
use ringtap_sys::bpf::{Kernel, NativePart};
use ringtap_sys::cycles::{Rate, thread_id};
use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Name, Netlink};
use ringtap_sys::perf::{Drained, Sampler, Trigger, is_refusal, paranoid};
use ringtap_sys::sched::{self, online_cpus};

use crate::attribute::{Attributor, Cast, Tally, Verdict};
use crate::counters::{ProcessorTime, interrupts, receive_softirqs};
use crate::differential::Comparison;
use crate::naps::{self, Counting};
use crate::reader::{self, Mark, Phase};
use crate::report::{
    Figure, Method, Origin, Packets, Part, Processor, Rates, ReaderClock, Report, Sampled,
    Sampling, Settings, Step, Unexplained, VERSION, ratio, to_f64,
};
use crate::traffic::{Generator, RECEIVING, Traffic, Wire};
use crate::{COMPONENTS, Component, Error, KernelSymbols, Result, Table, TapKind, image};

/// How often samples are taken out of the kernel's rings.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// Before anything is measured: caches fill, the reader finds its pace.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long the processor's clock is measured.
const CALIBRATION: Duration = Duration::from_millis(30);
/// Parts of the time: samples, then counts that would disturb them, then programs cut short.
const SAMPLED: f64 = 0.6;
const COUNTED: f64 = 0.1;
/// Functions without a rule that a report names at most.
const UNNAMED: usize = 20;
/// Functions of a component that a report names at most.
const FUNCTIONS: usize = 8;
const NANOS: f64 = 1e9;

/// What is profiled.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The interface, without an engine; nothing to generate packets in namespaces made for that.
    pub device: Option<String>,
    /// How to capture.
    pub options: CaptureOptions,
    /// The filter.
    pub filter: Option<Filter>,
    /// How long one profile takes.
    pub duration: Duration,
    /// Samples per second and processor.
    pub rate: u32,
    /// What is generated, where there is no interface.
    pub traffic: Traffic,
    /// Whether the tap's program is also cut short and measured step by step.
    pub steps: bool,
}

/// Makes a profile of an engine, by its name; nothing for the one that a capture takes by itself.
/// `stop` ends it early.
///
/// # Errors
/// The capture can't be opened or fails. A right that is missing for one of the methods is no error:
/// the report says what it then can't tell.
pub fn run(plan: &Plan, engine: Option<&str>, stop: &AtomicBool) -> Result<Report> {
    // A thread of its own goes to where the packets are.
    thread::scope(|scope| {
        let work = || match plan.device {
            Some(_) => Profile::new(plan, engine, stop, None)?.run(),
            None => {
                let wire = Wire::new()?;
                wire.enter()?;
                let (first, last) = processors()?;
                let mut plan = plan.clone();
                plan.traffic.cpu = plan.traffic.cpu.or(Some(first));
                if plan.options.cpus.is_empty() {
                    plan.options.cpus = vec![last];
                }
                let generator = wire.generate(&plan.traffic)?;
                Profile::new(&plan, engine, stop, Some(generator))?.run()
            }
        };
        let thread = thread::Builder::new().name("profile".to_owned());
        let thread = thread.spawn_scoped(scope, work);
        let thread =
            thread.map_err(|source| ringtap_sys::Error::new("clone", "profile", source))?;
        thread.join().map_err(|_| Error::Thread("profiling"))?
    })
}

/// The first and the last processor that this process may use.
fn processors() -> Result<(usize, usize)> {
    let cpus = sched::affinity()?;
    let list = cpus.as_slice();
    Ok((
        list.first().copied().unwrap_or(0),
        list.last().copied().unwrap_or(0),
    ))
}

/// A profile on the way.
struct Profile<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    generator: Option<Generator>,
    /// The interface's name.
    name: String,
    /// The same with the engine.
    device: String,
    rate: Rate,
    tap: TapKind,
    cannot_tell: Vec<String>,
}

/// What one phase has seen.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    packets: u64,
    time: Option<ProcessorTime>,
    interrupts: Option<u64>,
    softirqs: Option<u64>,
}

impl<'a> Profile<'a> {
    fn new(
        plan: &'a Plan,
        engine: Option<&str>,
        stop: &'a AtomicBool,
        generator: Option<Generator>,
    ) -> Result<Self> {
        let name = plan.device.clone().unwrap_or_else(|| RECEIVING.to_owned());
        let device = engine.map_or_else(|| name.clone(), |engine| format!("{engine}:{name}"));
        Ok(Self {
            plan,
            stop,
            generator,
            name,
            device,
            rate: Rate::measure(CALIBRATION),
            tap: TapKind::default(),
            cannot_tell: Vec::new(),
        })
    }

    fn run(mut self) -> Result<Report> {
        let options = CaptureOptions {
            study: Some(Stage::Copy),
            ..self.plan.options.clone()
        };
        let source = open(&self.device, &options, self.plan.filter.as_ref())?;
        let description = source.describe();
        self.tap = match description.engine {
            "packet" => TapKind::Packet,
            "xsk" => TapKind::Xsk,
            _ => TapKind::Hook,
        };
        let parts = self.native_parts(source.as_ref());
        let polls = self.polls();
        let seen = self.observe(source, &parts, polls.as_ref())?;
        let steps = self.steps(description.engine)?;
        if let Some(generator) = self.generator.take() {
            generator.stop()?;
        }
        Ok(self.report(description.engine, description.hook, &seen, steps))
    }

    /// Where the capture's programs lie.
    fn native_parts(&mut self, source: &dyn Source) -> Vec<NativePart> {
        let mut parts = Vec::new();
        for program in source.programs().unwrap_or_default() {
            parts.extend(program.native_parts().unwrap_or_default());
        }
        parts
    }

    fn polls(&mut self) -> Option<Counting> {
        match naps::polls(&Kernel::running()) {
            Ok(polls) => Some(polls),
            Err(error) => {
                self.cannot_tell.push(format!("packets per poll: {error}"));
                None
            }
        }
    }

    /// Runs the capture and watches it.
    fn observe(
        &mut self,
        mut source: Box<dyn Source>,
        parts: &[NativePart],
        polls: Option<&Counting>,
    ) -> Result<Seen> {
        let waker = source.waker();
        let phase = Phase::default();
        let (tell, told) = std::sync::mpsc::channel();
        let options = &self.plan.options;
        thread::scope(|scope| {
            let reader = thread::Builder::new().name("reader".to_owned());
            let (reading, telling) = (&phase, tell);
            let reader = reader.spawn_scoped(scope, move || {
                options.place_thread()?;
                // Whoever waits for it is there.
                let _ = telling.send(thread_id());
                reader::read(source.as_mut(), reading)
            });
            let reader =
                reader.map_err(|source| ringtap_sys::Error::new("clone", "reader", source))?;
            let outcome = match told.recv() {
                Ok(thread) => {
                    let next = || {
                        phase.next();
                        waker.wake();
                    };
                    self.watch(thread, parts, polls, &next)
                }
                Err(_) => Err(Error::Thread("reading")),
            };
            phase.end();
            waker.wake();
            let marks = reader.join().map_err(|_| Error::Thread("reading"))??;
            let mut seen = outcome?;
            seen.marks = marks;
            Ok(seen)
        })
    }

    /// Phases: warm-up, samples, counts.
    fn watch(
        &mut self,
        reader: u32,
        parts: &[NativePart],
        polls: Option<&Counting>,
        next: &dyn Fn(),
    ) -> Result<Seen> {
        self.pause(WARM_UP, || ());
        let mut attributor = self.attributor(reader, parts);
        let mut sampler = self.sampler();
        let mut sampled = Gathered::default();
        let polls_before = polls.and_then(|polls| polls.read().ok());
        next();
        let begin = self.moment()?;
        if let Some(sampler) = &mut sampler {
            sampler.start()?;
        }
        let duration = self.plan.duration.mul_f64(SAMPLED);
        let mut drain = || {
            if let Some(sampler) = &mut sampler {
                let more =
                    sampler.drain(|sample| sampled.add(sample.cpu, attributor.judge(sample)));
                let drained = &mut sampled.drained;
                drained.samples += more.samples;
                drained.lost += more.lost;
                drained.throttled += more.throttled;
            }
        };
        self.pause(duration, &mut drain);
        let end = self.moment()?;
        next();
        drain();
        if let Some(sampler) = &sampler {
            sampler.stop()?;
        }
        let polls_after = polls.and_then(|polls| polls.read().ok());
        let polls = polls_before.zip(polls_after);
        let calls = self.count_calls(reader, next)?;
        Ok(Seen {
            begin,
            end,
            trigger: sampler.as_ref().map(Sampler::trigger),
            sampled,
            unnamed: attributor.unknown().into_iter().take(UNNAMED).collect(),
            functions: functions(&attributor),
            has_symbols: attributor.has_symbols(),
            polls: polls.map(|(before, after)| (after.0 - before.0, after.1 - before.1)),
            calls,
            marks: Vec::new(),
        })
    }

    /// System calls of the reader, and the packets of that time: not while samples are taken, for it
    /// makes every system call of the machine a little dearer.
    fn count_calls(&mut self, reader: u32, next: &dyn Fn()) -> Result<Option<(u64, u64)>> {
        let counting = match naps::calls(&Kernel::running(), reader) {
            Ok(counting) => counting,
            Err(error) => {
                self.cannot_tell.push(format!("system calls: {error}"));
                next();
                return Ok(None);
            }
        };
        let begin = self.moment()?;
        let before = counting.read()?;
        self.pause(self.plan.duration.mul_f64(COUNTED), || ());
        let after = counting.read()?;
        let end = self.moment()?;
        next();
        Ok(Some((after.0 - before.0, end.packets - begin.packets)))
    }

    fn attributor(&mut self, reader: u32, parts: &[NativePart]) -> Attributor {
        let symbols = match KernelSymbols::read() {
            Ok(symbols) => Some(symbols),
            Err(error) => {
                self.cannot_tell
                    .push(format!("functions of the kernel: {error}"));
                None
            }
        };
        let table = Table::built_in();
        let driver = self.driver();
        let number = table.driver(&driver);
        if number.is_none() && !driver.is_empty() {
            self.cannot_tell.push(format!(
                "the driver {driver} from others: it is not in the table, work of all interfaces is counted"
            ));
        }
        let cast = Cast {
            process: std::process::id(),
            reader,
            generators: self.generator.iter().map(Generator::thread).collect(),
            application: image::application(),
            driver: number,
            tap: self.tap,
        };
        if cast.application.is_none() {
            self.cannot_tell.push(
                "the application from the reader by address: the program has no symbols".to_owned(),
            );
        }
        Attributor::new(table, symbols, parts, cast)
    }

    /// The sampler that this machine and the rights allow.
    fn sampler(&mut self) -> Option<Sampler> {
        let cpus = online_cpus().ok()?;
        let hertz = f64::from(self.plan.rate.max(1));
        let cycles = Trigger::Cycles {
            period: whole(self.rate.per_nanosecond * NANOS / hertz),
        };
        match Sampler::open(cycles, cpus.as_slice()) {
            Ok(sampler) => return Some(sampler),
            Err(error) if is_refusal(&error) => {}
            Err(error) => self.cannot_tell.push(format!(
                "cycles by the processor's own counter ({error}): the kernel's timer samples instead, and work \
                 done with interrupts off shows where they are let in again"
            )),
        }
        let clock = Trigger::Clock {
            period: whole(NANOS / hertz),
        };
        match Sampler::open(clock, cpus.as_slice()) {
            Ok(sampler) => Some(sampler),
            Err(error) => {
                let level = paranoid().map_or_else(String::new, |level| {
                    format!("; kernel.perf_event_paranoid is {level}")
                });
                self.cannot_tell.push(format!(
                    "driver, stack, and what goes on in the kernel: no samples without CAP_PERFMON ({error}{level})"
                ));
                None
            }
        }
    }

    /// Waits, doing something from time to time; less long where an end is asked for.
    fn pause(&self, duration: Duration, mut each: impl FnMut()) {
        let begin = Instant::now();
        while let Some(left) = duration.checked_sub(begin.elapsed()) {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(left.min(DRAIN_EVERY));
            each();
        }
    }

    fn moment(&self) -> Result<Moment> {
        let failed = |source| Error::Interface {
            device: self.name.clone(),
            source,
        };
        let mut netlink = Netlink::open().map_err(failed)?;
        let link = netlink.link(&self.name).map_err(failed)?;
        let counters = link.counters;
        let packets = match self.plan.options.direction {
            Direction::In => counters.rx_packets,
            Direction::Out => counters.tx_packets,
            Direction::Both => counters.rx_packets + counters.tx_packets,
        };
        Ok(Moment {
            at: Instant::now(),
            packets,
            time: ProcessorTime::read(),
            interrupts: interrupts(&self.name),
            softirqs: receive_softirqs(),
        })
    }

    fn driver(&self) -> String {
        let driver = Ethtool::open()
            .and_then(|mut ethtool| ethtool.driver(&Name::new(self.name.as_bytes())));
        driver
            .ok()
            .flatten()
            .map_or_else(String::new, |driver| driver.name.to_string())
    }

    /// The tap's program, step by step.
    fn steps(&mut self, engine: &str) -> Result<Vec<Step>> {
        if !self.plan.steps || self.stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        if !matches!(engine, "tcx" | "xdp") {
            self.cannot_tell.push(format!(
                "steps by programs cut short: engine {engine} has no program of its own that the kernel keeps \
                 statistics of"
            ));
            return Ok(Vec::new());
        }
        let comparison = Comparison {
            device: &format!("{engine}:{}", self.name),
            options: &self.plan.options,
            filter: self.plan.filter.as_ref(),
            duration: self.plan.duration.mul_f64(1.0 - SAMPLED - COUNTED),
            ticks_per_ns: self.rate.per_nanosecond,
        };
        match comparison.run(self.stop) {
            Ok(steps) => Ok(steps),
            Err(Error::Bpf(error)) => {
                self.cannot_tell
                    .push(format!("steps by programs cut short: {error}"));
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn report(mut self, engine: &str, hook: &str, seen: &Seen, steps: Vec<Step>) -> Report {
        let seconds = (seen.end.at - seen.begin.at).as_secs_f64();
        let on_interface = seen.end.packets.saturating_sub(seen.begin.packets);
        let (first, last) = seen.reading();
        let reader_clock = self.reader_clock(&first, &last, on_interface);
        let sampling = seen.sampling(self.rate);
        let (mut components, unexplained, total) = match &sampling {
            Some(sampling) => self.by_samples(seen, sampling, on_interface),
            None => self.without_samples(&steps, &reader_clock),
        };
        if sampling.is_some() && image::application().is_none() {
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
                application_by_address: image::application().is_some(),
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

    /// What the method can't tell by its nature.
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
                Precision::Coarse => "coarse",
                Precision::None => "none",
            }
            .to_owned(),
            steals: options.mode == Mode::Steal,
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
        let time = seen
            .begin
            .time
            .zip(seen.end.time)
            .map(|(begin, end)| end.since(begin));
        let busy_ns = time.map(|time| {
            let away = nanos_f64((time.idle + time.stolen).as_nanos());
            (elapsed * to_f64(cpus as u64) - away).max(0.0)
        });
        let sampled = Sampled {
            tally: &sampling.tally,
            lost: sampling.lost,
            period_ns: sampling.period_ns,
            packets: on_interface,
            busy_ns,
            ticks_per_ns: self.rate.per_nanosecond,
        };
        sampled.figures()
    }

    /// What can be said without samples: the steps of the program, and the reader by its accounts.
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
        let parts = COMPONENTS.map(|component| {
            let (cost, origin) = match component {
                Component::Driver | Component::Stack => (None, None),
                Component::Tap => (step("hook", true), Some(Origin::Differential)),
                Component::Filter => (step("filter", false), Some(Origin::Differential)),
                Component::Timestamp => (step("timestamp", false), Some(Origin::Differential)),
                Component::Copy => (step("copy", false), Some(Origin::Differential)),
                Component::Wake => (Some(figure(clock.system_ns)), Some(Origin::Accounting)),
                Component::Reader => (Some(figure(clock.user_ns)), Some(Origin::Accounting)),
                // Reader and application are one for the accounts.
                Component::Application => (None, None),
            };
            Part {
                component,
                cost,
                share: None,
                origin: origin.filter(|_| cost.is_some()),
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

/// The most frequent functions of each component in the kernel.
fn functions(attributor: &Attributor) -> Vec<(Component, Vec<(String, u64)>)> {
    let of = |component| {
        attributor
            .functions(component)
            .into_iter()
            .take(FUNCTIONS)
            .collect()
    };
    COMPONENTS
        .map(|component| (component, of(component)))
        .into()
}

/// Divides what was sampled in user space between reader and application by the reader's readings of the
/// clock: it can't be told by addresses.
fn divide_reader(parts: &mut [Part], clock: &ReaderClock) {
    let Some(reader) = parts
        .iter()
        .position(|part| part.component == Component::Reader)
    else {
        return;
    };
    let Some(cost) = parts[reader].cost else {
        return;
    };
    let inside = clock.in_blocks_ns.min(cost.ns);
    let scale = ratio(inside, cost.ns);
    let share = parts[reader].share.unwrap_or_default();
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

/// Samples so far.
#[derive(Debug, Default)]
struct Gathered {
    tally: Tally,
    drained: Drained,
    processors: BTreeMap<u32, Processor>,
}

impl Gathered {
    fn add(&mut self, cpu: u32, verdict: Verdict) {
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

/// All that was seen.
#[derive(Debug)]
struct Seen {
    begin: Moment,
    end: Moment,
    trigger: Option<Trigger>,
    sampled: Gathered,
    unnamed: Vec<(String, u64)>,
    functions: Vec<(Component, Vec<(String, u64)>)>,
    has_symbols: bool,
    /// Polls that brought packets, and those packets.
    polls: Option<(u64, u64)>,
    /// System calls of the reader, and packets in their time.
    calls: Option<(u64, u64)>,
    /// The reader at the ends of phases.
    marks: Vec<Mark>,
}

impl Seen {
    /// The reader at the begin and the end of the samples.
    fn reading(&self) -> (Mark, Mark) {
        let first = self.marks.first().copied().unwrap_or_default();
        (first, self.marks.get(1).copied().unwrap_or(first))
    }

    fn sampling(&self, rate: Rate) -> Option<Sampling> {
        let (event, period_ns) = match self.trigger? {
            Trigger::Cycles { period } => ("cycles", to_f64(period) / rate.per_nanosecond),
            Trigger::Clock { period } => ("cpu-clock", to_f64(period)),
        };
        Some(Sampling {
            event: event.to_owned(),
            period_ns,
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and casts of floats saturate"
)]
fn whole(number: f64) -> u64 {
    (number as u64).max(1)
}
