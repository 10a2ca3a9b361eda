//! Triggers: a condition, or a request, copies the packets around it out of the rotation.
//!
//! The capture threads look for conditions ([`Watch`]) and send those that occur to the main thread. That
//! waits until the window is over, and copies it (`incident.rs`).

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ringtap_capture::{Block, Filter, Interface, LinkType, Matcher, Packet, Stats, Timestamp};
use ringtap_packet::MAX_SNAPLEN;

use super::error::RecorderError;
use crate::cli::RecorderTriggerArgs;
use crate::notice::counted;
use crate::values::{Condition, Trigger};

/// The time over which rates are measured.
const SECOND: Duration = Duration::from_secs(1);

/// A condition that occurred, or a request.
#[derive(Clone, Debug)]
pub(super) struct Fired {
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) at: Timestamp,
}

/// The conditions that a device's packets are compared with.
pub(super) struct Watch {
    conditions: Vec<Watched>,
    sender: Sender<Fired>,
    device: String,
    /// When rates were last compared.
    since: Instant,
    /// The losses that were known then.
    lost: Option<u64>,
}

struct Watched {
    trigger: Trigger,
    /// The filter, if the condition is about packets.
    filter: Option<Programs>,
    matched: u64,
    /// It occurred, and is not looked for until then.
    quiet_until: Option<Instant>,
}

/// A filter, and its programs for the interfaces of a device.
pub(super) struct Programs {
    filter: Filter,
    /// `None` for interfaces whose link type the filter is not for.
    programs: Vec<Option<Matcher>>,
}

impl Programs {
    /// Compiles a filter for interfaces.
    ///
    /// # Errors
    /// It is invalid, or not for these interfaces.
    pub(super) fn new(text: &str, interfaces: &[Interface]) -> Result<Self, RecorderError> {
        let filter = filter_of(text);
        check(&filter, interfaces)?;
        let mut programs = Self {
            filter,
            programs: Vec::new(),
        };
        programs.interfaces(interfaces);
        Ok(programs)
    }

    /// Compiles the filter for interfaces that are new. If it is not for an interface, it accepts none of its packets.
    pub(super) fn interfaces(&mut self, interfaces: &[Interface]) {
        let new = interfaces.iter().skip(self.programs.len());
        self.programs.extend(new.map(|interface| {
            let program = self.filter.compile(interface.link_type, MAX_SNAPLEN);
            program.ok().map(Matcher::new)
        }));
    }

    #[inline]
    pub(super) fn accepts(&self, packet: &Packet<'_>) -> bool {
        let program = self.programs.get(packet.interface as usize);
        let program = program.and_then(Option::as_ref);
        program.is_some_and(|program| program.accepts(packet))
    }
}

impl Watch {
    /// Compiles the filters for a device's interfaces. `None` if there are no conditions.
    ///
    /// # Errors
    /// A filter is invalid, or not for the link type.
    pub(super) fn new(
        args: &RecorderTriggerArgs,
        device: &str,
        interfaces: &[Interface],
        sender: Sender<Fired>,
    ) -> Result<Option<Self>, RecorderError> {
        let mut conditions = Vec::new();
        if let Some(text) = &args.trigger_filter {
            check(&filter_of(text), interfaces)?;
        }
        for trigger in &args.trigger {
            let filter = match &trigger.condition {
                Condition::Packet(filter) | Condition::Rate { filter, .. } => Some(filter),
                Condition::Loss { .. } | Condition::Alert(_) => None,
            };
            let filter = filter.map(|text| Programs::new(text, interfaces));
            conditions.push(Watched {
                trigger: trigger.clone(),
                filter: filter.transpose()?,
                matched: 0,
                quiet_until: None,
            });
        }
        let watch = Self {
            conditions,
            sender,
            device: device.to_owned(),
            since: Instant::now(),
            lost: None,
        };
        Ok((!watch.conditions.is_empty()).then_some(watch))
    }

    /// Compiles the filters for interfaces that are new.
    pub(super) fn interfaces(&mut self, interfaces: &[Interface]) {
        let filters = self.conditions.iter_mut();
        let filters = filters.filter_map(|watched| watched.filter.as_mut());
        filters.for_each(|filter| filter.interfaces(interfaces));
    }

    /// Compares the packets of a block.
    pub(super) fn block(&mut self, block: &Block<'_>) {
        for watched in &mut self.conditions {
            let Some(filter) = &watched.filter else {
                continue;
            };
            let is_match = |packet: &Packet<'_>| filter.accepts(packet);
            match &watched.trigger.condition {
                Condition::Rate { .. } => {
                    watched.matched += block.packets().filter(is_match).count() as u64;
                }
                Condition::Packet(_) if watched.is_quiet() => {}
                Condition::Packet(filter) => {
                    if let Some(packet) = block.packets().find(is_match) {
                        let reason = format!("{}: a packet matches: {filter}", self.device);
                        watched.fire(&self.sender, reason, packet.timestamp);
                    }
                }
                Condition::Loss { .. } | Condition::Alert(_) => {}
            }
        }
    }

    /// Compares rates and losses, once a second.
    pub(super) fn tick(&mut self, stats: &Stats, lost_by_writer: u64) {
        let passed = self.since.elapsed();
        if passed < SECOND {
            return;
        }
        self.since = Instant::now();
        let dropped = &stats.dropped;
        let places = [
            dropped.hook,
            dropped.ring,
            dropped.interface,
            dropped.application,
        ];
        let lost = places.into_iter().flatten().sum::<u64>() + lost_by_writer;
        let more = self.lost.map_or(0, |before| lost.saturating_sub(before));
        self.lost = Some(lost);
        let (device, sender) = (&self.device, &self.sender);
        for watched in &mut self.conditions {
            let matched = std::mem::take(&mut watched.matched);
            if watched.is_quiet() {
                continue;
            }
            let reason = match &watched.trigger.condition {
                Condition::Loss { above } if more > *above => {
                    format!("{device}: {} lost within a second", counted(more, "packet"))
                }
                Condition::Rate { filter, above } => {
                    #[expect(clippy::cast_precision_loss, reason = "a rate")]
                    let rate = matched as f64 / passed.as_secs_f64();
                    if rate <= *above {
                        continue;
                    }
                    format!("{device}: {rate:.0} packets a second match: {filter}")
                }
                _ => continue,
            };
            watched.fire(sender, reason, Timestamp::now());
        }
    }
}

impl Watched {
    fn is_quiet(&self) -> bool {
        self.quiet_until.is_some_and(|until| Instant::now() < until)
    }

    fn fire(&mut self, sender: &Sender<Fired>, reason: String, at: Timestamp) {
        // The main thread has the cool-down of all devices; this only saves it work.
        self.quiet_until = Some(Instant::now() + SECOND);
        let fired = Fired {
            name: self.trigger.name.clone(),
            reason,
            at,
        };
        // Without a receiver the run is over.
        let _ = sender.send(fired);
    }
}

/// Checks that a filter is valid, and for these interfaces. Without any it must be one for Ethernet.
///
/// # Errors
/// It is not.
fn check(filter: &Filter, interfaces: &[Interface]) -> Result<(), RecorderError> {
    let mut links: Vec<LinkType> = interfaces.iter().map(|one| one.link_type).collect();
    if links.is_empty() {
        links.push(LinkType::ETHERNET);
    }
    for link in links {
        filter.compile(link, MAX_SNAPLEN)?;
    }
    Ok(())
}

/// Returns the filter of a trigger, or of its copies.
pub(super) fn filter_of(text: &str) -> Filter {
    Filter::new(text).with_extensions(true)
}
