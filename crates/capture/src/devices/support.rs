//! Reports which engines can capture on a device, and why the others cannot.

use ringtap_packet::LinkType;
use ringtap_sys::bpf::Feature;
use ringtap_sys::privileges::{Capability, has_capability};

use super::DeviceInfo;
use crate::engines::{ENGINES, Engine, trial};

/// The support of a device by one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSupport {
    /// The engine's name.
    pub engine: &'static str,
    /// Its description, in a few words.
    pub summary: &'static str,
    /// The obstacle. `None` if the engine can be used.
    pub obstacle: Option<Obstacle>,
}

/// The reason why an engine cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// It captures on one interface, and this is [`ANY`](super::ANY).
    #[error("captures on one interface, not on all")]
    OneInterface,
    /// Its packets need an added header, such as [`LinkType::LINUX_SLL2`], which only engine packet supports.
    #[error("only engine packet can make the header {0} of its packets")]
    NoLinkType(LinkType),
    /// The process lacks a capability.
    #[error("needs {0}: run as root or grant the capability")]
    Capability(Capability),
    /// The kernel is too old for the engine's program.
    #[error("needs {} (Linux {}.{} or later)", .0.name(), .0.since().0, .0.since().1)]
    KernelLacks(Feature),
    /// The kernel rejects the engine's smallest program.
    #[error("the kernel rejects its program: {0}")]
    KernelRefuses(String),
}

impl DeviceInfo {
    /// Returns all engines, each with the obstacle for the calling thread: a missing capability, or a
    /// rejected smallest program. Other rejections, by the driver or because of another program on the
    /// interface, appear when a capture is opened.
    #[must_use]
    pub fn engines(&self) -> Vec<EngineSupport> {
        let support = |engine: &'static Engine| EngineSupport {
            engine: engine.name,
            summary: engine.summary,
            obstacle: obstacle(engine, self.index == 0, self.link_type),
        };
        ENGINES.iter().map(support).collect()
    }
}

fn obstacle(
    engine: &'static Engine,
    all_interfaces: bool,
    link_type: LinkType,
) -> Option<Obstacle> {
    if all_interfaces && !engine.takes_any {
        return Some(Obstacle::OneInterface);
    }
    let is_made = [LinkType::LINUX_SLL2, LinkType::NETLINK].contains(&link_type);
    if is_made && !all_interfaces && !engine.makes_headers {
        return Some(Obstacle::NoLinkType(link_type));
    }
    let missing = engine
        .needs
        .iter()
        .find(|capability| !has_capability(**capability));
    let missing = missing.copied().map(Obstacle::Capability);
    missing.or_else(|| trial::obstacle(engine))
}
