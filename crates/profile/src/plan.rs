//! The plan of a profile, and the measurements while it runs.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Filter};
use ringtap_sys::cycles::Rate;

use crate::TapKind;
use crate::counters::ProcessorTime;
use crate::traffic::{Generator, Traffic};

/// The plan of a profile.
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
    /// The generated traffic, if no interface is given.
    pub traffic: Traffic,
    /// Whether the capture is also cut short and measured step by step.
    pub steps: bool,
    /// Nanoseconds that the application works on each packet, by the processor's clock.
    pub work: u32,
}

/// A profile on the way.
pub(crate) struct Profile<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) generator: Option<Generator>,
    /// The interface's name.
    pub(crate) name: String,
    /// The same with the engine.
    pub(crate) device: String,
    pub(crate) rate: Rate,
    pub(crate) tap: TapKind,
    pub(crate) cannot_tell: Vec<String>,
}

/// The measurements of one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) packets: u64,
    pub(crate) time: Option<ProcessorTime>,
    pub(crate) interrupts: Option<u64>,
    pub(crate) softirqs: Option<u64>,
}
