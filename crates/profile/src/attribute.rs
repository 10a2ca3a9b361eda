//! Attributes samples to components.

use std::collections::HashMap;
use std::ops::Range;

use ringtap_capture::{PROGRAM_PARTS, ProgramPart};
use ringtap_sys::bpf::NativePart;
use ringtap_sys::perf::Sample;
use serde::{Deserialize, Serialize};

use crate::table::{Class, Outside, Table, TapKind};
use crate::{COMPONENTS, Component, KernelSymbols};

/// The result for a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Work on packets of the profiled capture.
    On(Component),
    /// Work on these packets, or of the reader, in functions without a rule.
    Unexplained,
    /// The generator's work.
    Generator,
    /// The measurement's own work.
    Measurement,
    /// Other work of the host.
    Other,
    /// An idle processor.
    Idle,
}

/// The processes, threads and programs that take part.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    /// The own process.
    pub process: u32,
    /// The thread that reads the capture.
    pub reader: u32,
    /// Threads that generate packets.
    pub generators: Vec<u32>,
    /// The application's code in the profiled program, if known.
    pub application: Option<Range<u64>>,
    /// The interface's driver by its number in the table.
    pub driver: Option<u16>,
    /// The capture's kind of tap.
    pub tap: TapKind,
}

/// Samples, counted by their results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// By component, in the order of [`COMPONENTS`].
    pub components: [u64; COMPONENTS.len()],
    /// Work on packets in functions without a rule.
    pub unexplained: u64,
    /// The generator.
    pub generator: u64,
    /// The measurement itself.
    pub measurement: u64,
    /// All other work of the host.
    pub other: u64,
    /// Idle time.
    pub idle: u64,
}

impl Tally {
    /// Counts a sample.
    pub fn add(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::On(component) => &mut self.components[component.index()],
            Verdict::Unexplained => &mut self.unexplained,
            Verdict::Generator => &mut self.generator,
            Verdict::Measurement => &mut self.measurement,
            Verdict::Other => &mut self.other,
            Verdict::Idle => &mut self.idle,
        };
        *count += 1;
    }

    /// Returns the samples of components.
    #[must_use]
    pub fn explained(&self) -> u64 {
        self.components.iter().sum()
    }

    /// Returns the samples of busy processors.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.explained() + self.unexplained + self.generator + self.measurement + self.other
    }
}

/// Attributes samples.
#[derive(Debug)]
pub struct Attributor {
    table: Table,
    symbols: Option<KernelSymbols>,
    /// The capture's own programs, by address.
    parts: Vec<(Range<u64>, Component)>,
    cast: Cast,
    classes: HashMap<usize, Class>,
    unknown: HashMap<usize, u64>,
    /// Innermost functions by component, with their samples.
    functions: HashMap<(Component, Option<usize>), u64>,
    /// The frames of the present sample.
    frames: Vec<Frame>,
}

/// A function of a call chain.
#[derive(Clone, Copy, Debug)]
enum Frame {
    /// Code of the capture's own program.
    Part(Component),
    /// A function, inside or outside the core kernel.
    Function { class: Class, is_beyond_core: bool },
    /// Code without a name outside the core kernel: made at run time.
    Nameless,
}

impl Frame {
    fn class(&self) -> Option<&Class> {
        match self {
            Self::Function { class, .. } => Some(class),
            Self::Part(_) | Self::Nameless => None,
        }
    }
}

impl Attributor {
    /// Returns an attributor for the present symbols.
    #[must_use]
    pub fn new(
        table: Table,
        symbols: Option<KernelSymbols>,
        parts: &[NativePart],
        cast: Cast,
    ) -> Self {
        let component = |name: &str| {
            let part = PROGRAM_PARTS.into_iter().find(|part| part.name() == name);
            Component::from(part.unwrap_or(ProgramPart::Tap))
        };
        let parts = parts
            .iter()
            .map(|part| (part.addresses.clone(), component(part.name)));
        Self {
            table,
            symbols,
            parts: parts.collect(),
            cast,
            classes: HashMap::new(),
            unknown: HashMap::new(),
            functions: HashMap::new(),
            frames: Vec::new(),
        }
    }

    /// Returns whether the kernel's functions are known.
    #[must_use]
    pub fn has_symbols(&self) -> bool {
        self.symbols.is_some()
    }

    /// Attributes a sample.
    pub fn judge(&mut self, sample: &Sample<'_>) -> Verdict {
        if sample.in_kernel {
            self.judge_chain(sample.kernel_chain(), sample.process, sample.thread)
        } else {
            self.judge_user(sample.address, sample.process, sample.thread)
        }
    }

    /// Attributes an address in user space.
    #[must_use]
    pub fn judge_user(&self, address: u64, process: u32, thread: u32) -> Verdict {
        if process != self.cast.process {
            return Verdict::Other;
        }
        if thread == self.cast.reader {
            let of_application = self.cast.application.as_ref();
            let is_application = of_application.is_some_and(|range| range.contains(&address));
            return Verdict::On(if is_application {
                Component::Application
            } else {
                Component::Reader
            });
        }
        self.own(thread)
    }

    fn own(&self, thread: u32) -> Verdict {
        if self.cast.generators.contains(&thread) {
            Verdict::Generator
        } else {
            Verdict::Measurement
        }
    }

    /// Attributes a call chain of the kernel, innermost address first.
    pub fn judge_chain(
        &mut self,
        chain: impl Iterator<Item = u64>,
        process: u32,
        thread: u32,
    ) -> Verdict {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let mut innermost = None;
        for (depth, address) in chain.enumerate() {
            // After the innermost address come return addresses, which point after the call: it may be the
            // last instruction of its function.
            let address = if depth == 0 {
                address
            } else {
                address.wrapping_sub(1)
            };
            let frame = self.frame(address);
            if depth == 0 {
                let symbols = self.symbols.as_ref();
                innermost = match frame {
                    Frame::Function { .. } => symbols.and_then(|symbols| symbols.find(address)),
                    _ => None,
                };
            }
            frames.push(frame);
        }
        let verdict = self.judge_frames(&frames, process, thread);
        if let Verdict::On(component) = verdict {
            *self.functions.entry((component, innermost)).or_default() += 1;
        }
        self.frames = frames;
        verdict
    }

    fn judge_frames(&self, frames: &[Frame], process: u32, thread: u32) -> Verdict {
        let classes = || frames.iter().filter_map(Frame::class);
        let part = frames.iter().find_map(|frame| match frame {
            Frame::Part(component) => Some(*component),
            _ => None,
        });
        if let Some(component) = part {
            return Verdict::On(component);
        }
        if classes().any(|class| class.is_bell) {
            return Verdict::On(Component::Wake);
        }
        let is_own = process == self.cast.process;
        let is_reader = is_own && thread == self.cast.reader;
        let is_receiving = classes().any(|class| class.is_receive);
        if is_own && !is_receiving && self.cast.generators.contains(&thread) {
            return Verdict::Generator;
        }
        let taps = |ours: bool| {
            frames.iter().position(|frame| {
                let tap = frame.class().and_then(|class| class.tap);
                tap.is_some_and(|tap| self.cast.tap.includes(tap) == ours)
            })
        };
        if let Some(tap) = taps(true) {
            return Verdict::On(inside(&frames[..tap], frames[tap]));
        }
        if taps(false).is_some() {
            return Verdict::Other;
        }
        if is_receiving && self.is_of_another_interface(frames) {
            return Verdict::Other;
        }
        if is_receiving || is_reader {
            return outside(frames);
        }
        if is_own {
            return self.own(thread);
        }
        if process == 0 {
            return Verdict::Idle;
        }
        Verdict::Other
    }

    /// Returns whether a driver is in the chain that is not the profiled interface's.
    fn is_of_another_interface(&self, frames: &[Frame]) -> bool {
        let Some(own) = self.cast.driver else {
            return false;
        };
        let drivers = frames
            .iter()
            .filter_map(|frame| match frame.class()?.outside {
                Some(Outside::Driver(driver)) => Some(driver),
                _ => None,
            });
        let mut drivers = drivers.peekable();
        drivers.peek().is_some() && drivers.all(|driver| driver != own)
    }

    fn frame(&mut self, address: u64) -> Frame {
        if let Some((_, component)) = self
            .parts
            .iter()
            .find(|(range, _)| range.contains(&address))
        {
            return Frame::Part(*component);
        }
        let Some(symbols) = &self.symbols else {
            return Frame::Nameless;
        };
        let is_beyond_core = symbols.is_beyond_core(address);
        let Some(number) = symbols.find(address) else {
            return Frame::Nameless;
        };
        let table = &self.table;
        let class = *self
            .classes
            .entry(number)
            .or_insert_with(|| table.class(symbols.name(number)));
        if class == Class::default() {
            *self.unknown.entry(number).or_default() += 1;
        }
        Frame::Function {
            class,
            is_beyond_core,
        }
    }

    /// Returns functions in call chains that have no rule in the table, the most frequent first.
    #[must_use]
    pub fn unknown(&self) -> Vec<(String, u64)> {
        let counts = self.unknown.iter();
        most_frequent(counts.map(|(number, count)| (self.function(*number), *count)))
    }

    /// Returns the innermost functions of a component's samples in the kernel, the most frequent
    /// first.
    #[must_use]
    pub fn functions(&self, component: Component) -> Vec<(String, u64)> {
        let own = self
            .functions
            .iter()
            .filter(|((of, _), _)| *of == component);
        most_frequent(own.map(|((_, number), count)| {
            let name =
                number.map_or_else(|| "(program)".to_owned(), |number| self.function(number));
            (name, *count)
        }))
    }

    fn function(&self, number: usize) -> String {
        let symbols = self.symbols.as_ref();
        symbols.map_or_else(String::new, |symbols| symbols.name(number).to_owned())
    }
}

fn most_frequent(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut all: Vec<_> = counts.collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Attributes work inside a socket's tap: by the tap and the frames inside it, innermost first.
fn inside(frames: &[Frame], tap: Frame) -> Component {
    let all = frames.iter().chain([&tap]);
    let named = all.filter_map(Frame::class).find_map(|class| class.inside);
    // Filters of sockets are code without a name, or directly follow a program that has one.
    let is_program = frames.iter().any(|frame| match frame {
        Frame::Nameless => true,
        Frame::Function {
            class,
            is_beyond_core,
        } => *is_beyond_core && *class == Class::default(),
        Frame::Part(_) => false,
    });
    if is_program {
        return Component::Filter;
    }
    named.unwrap_or(Component::Tap)
}

/// Attributes work in the rest of the kernel.
fn outside(frames: &[Frame]) -> Verdict {
    let decided = frames
        .iter()
        .find_map(|frame| match frame.class()?.outside? {
            Outside::Caller => None,
            Outside::Of(component) => Some(Verdict::On(component)),
            Outside::Driver(_) => Some(Verdict::On(Component::Driver)),
            Outside::Idle => Some(Verdict::Idle),
            Outside::Other => Some(Verdict::Other),
        });
    decided.unwrap_or(Verdict::Unexplained)
}
