//! Counts dropped packets by reason in the kernel, without capturing them.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, Tracepoint};

use super::xdp::XdpCounters;
use super::{ENGINE, Facts, Known, settings};
use crate::engines::Device;
use crate::engines::tap::program::drops::{Counted, LOST_BYTES, LOST_WORD};
use crate::hook::HookError;
use crate::options::{CaptureOptions, Direction};
use crate::stat::{Count, Counters};
use crate::{Error, Filter, LinkType, MAX_SNAPLEN, Result};

/// The name of the last row.
const OTHERS: &str = "other reasons";

/// The names of the rows for losses at XDP.
const AT_XDP: [&str; 2] = ["XDP_EXCEPTION", "XDP_REDIRECT"];

/// Counters of dropped packets by reason. Dropping them removes the program.
#[derive(Debug)]
pub(crate) struct DropCounters {
    counters: Counters,
    names: Vec<String>,
    /// Counts what is lost at XDP, in the last rows.
    xdp: Option<XdpCounters>,
    program: bpf::Program,
    lost: Map,
    _point: Tracepoint,
    _scratch: Map,
}

impl DropCounters {
    /// Counts on a device from the return on.
    pub(crate) fn open(
        kernel: &Kernel,
        device: &Device<'_>,
        filter: Option<&Filter>,
        direction: Direction,
    ) -> Result<Self> {
        let options = CaptureOptions {
            direction,
            ..CaptureOptions::default()
        };
        let compiled = filter.map(|filter| filter.compile(LinkType::LINUX_SLL2, MAX_SNAPLEN));
        let compiled = compiled.transpose()?;
        let facts = Facts::of_kernel().map_err(|feature| Error::KernelLacks {
            device: device.given.to_owned(),
            engine: ENGINE,
            feature,
        })?;
        let known = Known::find(device)?;
        let failed = |source| HookError::of_bpf(device.given, source);
        let (drops, scratch) = settings(kernel, facts, known.only(), &options).map_err(failed)?;
        let mut names = names(facts);
        let reasons = names.len();
        // A filter cannot test packets that the kernel has no buffer for, nor is their interface known.
        let xdp = (filter.is_none() && known.only().is_none() && direction != Direction::Out)
            .then(|| XdpCounters::open(kernel))
            .flatten();
        names.extend(xdp.iter().flat_map(|_| AT_XDP.map(str::to_owned)));
        let counters = Counters::create(kernel, reasons).map_err(failed)?;
        let lost = MapSpec::new("ringtap_lost", MapKind::ARRAY, LOST_BYTES, 1);
        let lost = Map::create(kernel, &lost).map_err(failed)?;
        let counted = Counted {
            filter: compiled.zip(filter.map(Filter::expression)),
            counters: &counters,
            numbered: numbered(facts),
            subsystems: subsystems(facts).map(|(&reason, _)| reason).collect(),
            lost: lost.as_fd().as_raw_fd(),
        };
        let code = drops.code_that_counts(&counted)?;
        let name = "ringtap_drops";
        let program = bpf::Program::load(kernel, name, drops.kind(), &code).map_err(failed)?;
        let point = Tracepoint::at_function(kernel, &program).map_err(failed)?;
        Ok(Self {
            counters,
            names,
            xdp,
            program,
            lost,
            _point: point,
            _scratch: scratch,
        })
    }

    /// Returns the names of the reasons, in the order of their counts.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the count of a reason.
    pub(crate) fn load(&self, slot: usize) -> Count {
        let reasons = self.names.len() - self.at_xdp().len();
        match slot.checked_sub(reasons) {
            None => self.counters.load(slot),
            Some(row) => self.at_xdp().get(row).copied().unwrap_or_default(),
        }
    }

    /// Returns the counts at XDP, whose bytes are unknown.
    fn at_xdp(&self) -> Vec<Count> {
        let losses = self.xdp.as_ref().map(XdpCounters::load);
        let losses = losses
            .into_iter()
            .flat_map(|xdp| [xdp.exceptions, xdp.redirects]);
        losses.map(|packets| Count { packets, bytes: 0 }).collect()
    }

    /// Returns the count of all reasons.
    pub(crate) fn total(&self) -> Count {
        let mut total = self.counters.total();
        for count in self.at_xdp() {
            total.packets = total.packets.wrapping_add(count.packets);
        }
        total
    }

    /// Returns the packets that were not counted, since the program was running on their processor, or since
    /// they could not be read. `None` if the kernel does not report it.
    pub(crate) fn lost(&self) -> Option<u64> {
        let mut value = vec![0; self.lost.element_size()];
        self.lost.lookup(0, &mut value).ok()?;
        let word = value.get(LOST_WORD..LOST_WORD + 8)?.try_into().ok()?;
        let missed = self.program.info().ok()?.recursion_misses;
        Some(u64::from_ne_bytes(word) + missed)
    }
}

/// Returns the number of slots for reasons that the kernel itself numbers.
fn numbered(facts: &Facts) -> u32 {
    let own = facts.names.keys().filter(|reason| **reason >> 16 == 0);
    own.max().map_or(0, |highest| highest + 1)
}

/// Returns the reasons of subsystems.
fn subsystems(facts: &Facts) -> impl Iterator<Item = (&u32, &String)> {
    facts.names.iter().filter(|(reason, _)| **reason >> 16 != 0)
}

/// Returns the name of each slot.
fn names(facts: &Facts) -> Vec<String> {
    let own = (0..numbered(facts)).map(|reason| match facts.names.get(&reason) {
        Some(name) => name.clone(),
        None => format!("{reason:#x}"),
    });
    let of_subsystems = subsystems(facts).map(|(_, name)| name.clone());
    own.chain(of_subsystems)
        .chain([OTHERS.to_owned()])
        .collect()
}
