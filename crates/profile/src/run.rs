//! One profile: opens a capture, reads it, samples it, and measures its steps.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::{Direction, Source, Stage, open};
use ringtap_sys::bpf::{Kernel, NativePart};
use ringtap_sys::cycles::{Rate, thread_id, thread_time};
use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Name, Netlink};
use ringtap_sys::perf::{Sampler, Trigger, is_refusal, paranoid};
use ringtap_sys::sched::{self, online_cpus};

use crate::attribute::{Attributor, Cast};
use crate::build_report::{Gathered, Seen};
use crate::counters::{ProcessorTime, interrupts, receive_softirqs};
use crate::differential::Comparison;
use crate::plan::{Moment, Plan, Profile};
use crate::poll_counters::{self, Counting};
use crate::reader::{self, Phase};
use crate::report::{Report, Step};
use crate::traffic::{Generator, Wire};
use crate::{
    COMPONENTS, Component, Error, KernelSymbols, Result, Table, TapKind, build_report, overhead,
    own_symbols,
};

/// How often samples are taken out of the kernel's rings.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// The time before measuring: caches fill, and the reader reaches its pace.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long the processor's clock is calibrated.
const CALIBRATION: Duration = Duration::from_millis(30);
/// The share of the time for samples; then follow counters, which would disturb samples, and
/// programs that are cut short.
const SAMPLED: f64 = 0.6;
const COUNTED: f64 = 0.1;
/// The most functions without a rule in a report.
const UNNAMED: usize = 20;
/// The most functions of a component in a report.
const FUNCTIONS: usize = 8;
const NANOS: f64 = 1e9;
/// The part that a profile without steps lacks.
const STEPS: &str = "steps by captures cut short";

/// Makes a profile of an engine, by its name; nothing for the one that a capture takes by itself.
/// `stop` ends it early.
///
/// # Errors
/// Returns an error if the capture cannot be opened or fails. A missing privilege for one of the
/// methods is no error: the report lists the values that are missing for it.
pub fn run(plan: &Plan, engine: Option<&str>, stop: &AtomicBool) -> Result<Report> {
    // A thread of its own moves to the packets' namespace.
    thread::scope(|scope| {
        let work = || match &plan.device {
            Some(name) => Profile::new(plan, name, engine, stop, None).run(),
            None => {
                let wire = Wire::new(plan.traffic.receive_mask)?;
                wire.enter()?;
                let (first, last) = processors()?;
                let mut plan = plan.clone();
                plan.traffic.cpu = plan.traffic.cpu.or(Some(first));
                if plan.options.cpus.is_empty() {
                    plan.options.cpus = vec![last];
                }
                let generator = wire.generate(&plan.traffic)?;
                Profile::new(&plan, wire.receiving(), engine, stop, Some(generator)).run()
            }
        };
        let thread = thread::Builder::new().name("profile".to_owned());
        let thread = thread.spawn_scoped(scope, work);
        let thread =
            thread.map_err(|source| ringtap_sys::Error::new("clone", "profile", source))?;
        thread.join().map_err(|_| Error::Thread("profiling"))?
    })
}

/// Returns the first and the last processor that this process may use.
fn processors() -> Result<(usize, usize)> {
    let cpus = sched::affinity()?;
    let list = cpus.as_slice();
    Ok((
        list.first().copied().unwrap_or(0),
        list.last().copied().unwrap_or(0),
    ))
}

/// Two counts: events, and their amount.
type Pair = (u64, u64);

impl<'a> Profile<'a> {
    fn new(
        plan: &'a Plan,
        name: &str,
        engine: Option<&str>,
        stop: &'a AtomicBool,
        generator: Option<Generator>,
    ) -> Self {
        let name = name.to_owned();
        let device = engine.map_or_else(|| name.clone(), |engine| format!("{engine}:{name}"));
        Self {
            plan,
            stop,
            generator,
            name,
            device,
            rate: Rate::measure(CALIBRATION),
            tap: TapKind::default(),
            cannot_tell: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Report> {
        let options = self.plan.options.clone().study(Some(Stage::Copy));
        let source = open(&self.device, &options, self.plan.filter.as_ref())?;
        let description = source.describe();
        self.tap = match description.engine {
            "packet" => TapKind::Packet,
            "xsk" => TapKind::Xsk,
            _ => TapKind::Hook,
        };
        let parts = self.native_parts(source.as_ref());
        let seen = self.observe(source, &parts)?;
        let steps = self.steps(description.engine)?;
        if let Some(generator) = self.generator.take() {
            generator.stop()?;
        }
        Ok(self.report(description.engine, description.hook, &seen, steps))
    }

    /// Returns the addresses of the capture's programs.
    fn native_parts(&mut self, source: &dyn Source) -> Vec<NativePart> {
        let mut parts = Vec::new();
        for program in source.programs().unwrap_or_default() {
            parts.extend(program.native_parts().unwrap_or_default());
        }
        parts
    }

    /// Runs the capture and measures it.
    fn observe(&mut self, mut source: Box<dyn Source>, parts: &[NativePart]) -> Result<Seen> {
        let waker = source.waker();
        let phase = Phase::default();
        let (tell, told) = std::sync::mpsc::channel();
        let options = &self.plan.options;
        let work = f64::from(self.plan.work) * self.rate.per_nanosecond;
        let work = if self.plan.work == 0 { 0 } else { whole(work) };
        thread::scope(|scope| {
            let reader = thread::Builder::new().name("reader".to_owned());
            let (reading, telling) = (&phase, tell);
            let reader = reader.spawn_scoped(scope, move || {
                options.place_thread()?;
                // The receiver is still waiting.
                let _ = telling.send(thread_id());
                reader::read(source.as_mut(), reading, work)
            });
            let reader =
                reader.map_err(|source| ringtap_sys::Error::new("clone", "reader", source))?;
            let outcome = match told.recv() {
                Ok(thread) => {
                    let next = || {
                        phase.next();
                        waker.wake();
                    };
                    self.watch(thread, parts, &next)
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

    /// Runs the phases: warm-up, samples, counters.
    fn watch(&mut self, reader: u32, parts: &[NativePart], next: &dyn Fn()) -> Result<Seen> {
        self.pause(WARM_UP, || ());
        let mut attributor = self.attributor(reader, parts);
        let mut sampler = self.sampler();
        let own_ns = match &mut sampler {
            Some(sampler) => {
                let period_ns = build_report::period_ns(sampler.trigger(), self.rate);
                overhead::of_a_sample(sampler, self.rate, period_ns)?
            }
            None => None,
        };
        let mut sampled = Gathered::default();
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
        let (polls, calls) = self.count(reader, next)?;
        Ok(Seen {
            begin,
            end,
            trigger: sampler.as_ref().map(Sampler::trigger),
            own_ns,
            sampled,
            unnamed: attributor.unknown().into_iter().take(UNNAMED).collect(),
            functions: functions(&attributor),
            has_symbols: attributor.has_symbols(),
            polls,
            calls,
            marks: Vec::new(),
        })
    }

    /// Counts polls of drivers and system calls of the reader, and the packets of that time. It
    /// does not run during samples, because counting makes every poll and system call of the
    /// machine slower.
    fn count(&mut self, reader: u32, next: &dyn Fn()) -> Result<(Option<Pair>, Option<Pair>)> {
        let kernel = Kernel::running();
        let polls = self.known("packets per poll", poll_counters::polls(&kernel));
        let calls = self.known("system calls", poll_counters::calls(&kernel, reader));
        let read = |counting: &Option<Counting>| counting.as_ref().map(Counting::read).transpose();
        let begin = self.moment()?;
        let before = (read(&polls)?, read(&calls)?);
        self.pause(self.plan.duration.mul_f64(COUNTED), || ());
        let after = (read(&polls)?, read(&calls)?);
        let end = self.moment()?;
        next();
        let packets = end.packets - begin.packets;
        let polls = before.0.zip(after.0);
        let calls = before.1.zip(after.1);
        Ok((
            polls.map(|(before, after)| (after.0 - before.0, after.1 - before.1)),
            calls.map(|(before, after)| (after.0 - before.0, packets)),
        ))
    }

    /// Returns the value, or notes that the profile cannot tell `what`.
    fn known<T, E: Display>(&mut self, what: &str, value: std::result::Result<T, E>) -> Option<T> {
        let note = |error: E| self.cannot_tell.push(format!("{what}: {error}"));
        value.map_err(note).ok()
    }

    fn attributor(&mut self, reader: u32, parts: &[NativePart]) -> Attributor {
        let symbols = self.known("functions of the kernel", KernelSymbols::read());
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
            application: own_symbols::application(),
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

    /// Returns the sampler that the machine and the privileges allow.
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
                 done with interrupts off appears where they are enabled again"
            )),
        }
        let clock = Trigger::Clock {
            period: whole(NANOS / hertz),
        };
        let opened = Sampler::open(clock, cpus.as_slice()).map_err(|error| {
            let level = paranoid().map_or_else(String::new, |level| {
                format!("; kernel.perf_event_paranoid is {level}")
            });
            format!("no samples without CAP_PERFMON ({error}{level})")
        });
        self.known("driver, stack, and what goes on in the kernel", opened)
    }

    /// Waits, and calls `each` from time to time. Returns early if the run is stopped.
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

    pub(crate) fn driver(&self) -> String {
        let driver = Ethtool::open()
            .and_then(|mut ethtool| ethtool.driver(&Name::new(self.name.as_bytes())));
        driver
            .ok()
            .flatten()
            .map_or_else(String::new, |driver| driver.name.to_string())
    }

    /// Measures the capture step by step.
    fn steps(&mut self, engine: &str) -> Result<Vec<Step>> {
        if !self.plan.steps || self.stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let meter = self.generator.as_ref().map(Generator::thread);
        let meter = match (engine, meter) {
            ("tcx" | "xdp", _) => Ok(None),
            ("packet", Some(thread)) => Ok(Some(thread)),
            ("packet", None) => Err("with engine packet they need generated packets"),
            _ => Err(
                "with AF_XDP the program only chooses a socket; the cost is in the kernel after it, \
                 which takes packets whole or not at all",
            ),
        };
        let Some(meter) = self.known(STEPS, meter) else {
            return Ok(Vec::new());
        };
        let this = &*self;
        let meter = meter.map(|thread| move || this.metered(thread));
        let comparison = Comparison {
            device: &format!("{engine}:{}", self.name),
            options: &self.plan.options,
            filter: self.plan.filter.as_ref(),
            duration: self.plan.duration.mul_f64(1.0 - SAMPLED - COUNTED),
            ticks_per_ns: self.rate.per_nanosecond,
            meter: meter
                .as_ref()
                .map(|meter| meter as &(dyn Fn() -> Result<(u64, u64)> + Sync)),
        };
        match comparison.run(self.stop) {
            Err(Error::Bpf(error)) => Ok(self.known(STEPS, Err(error)).unwrap_or_default()),
            steps => steps,
        }
    }

    /// Returns the processor time of a thread in nanoseconds, and the packets of the interface.
    fn metered(&self, thread: u32) -> Result<(u64, u64)> {
        let time = thread_time(thread)?.as_nanos();
        let nanos = u64::try_from(time).unwrap_or(u64::MAX);
        Ok((nanos, self.moment()?.packets))
    }
}

/// Returns the most frequent functions of each component in the kernel.
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and casts of floats saturate"
)]
fn whole(number: f64) -> u64 {
    (number as u64).max(1)
}
