//! Which engines can capture on a device, and why the others cannot.

use ringtap_sys::privileges::{Capability, has_capability};

use super::DeviceInfo;
use crate::engines::{ENGINES, Engine};

/// An engine's word on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSupport {
    /// The engine's name.
    pub engine: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// What stands in its way; nothing where it can be used.
    pub obstacle: Option<Obstacle>,
}

/// Why an engine cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// This version does not have it.
    #[error("not in this version")]
    NotInThisVersion,
    /// It captures on one interface, and this is [`ANY`](super::ANY).
    #[error("captures on one interface, not on all")]
    OneInterface,
    /// The process lacks a capability.
    #[error("needs {0}: run as root or grant the capability")]
    Capability(Capability),
}

impl DeviceInfo {
    /// All engines, each with what stands in its way for the calling thread. What the driver refuses,
    /// and what another program on the interface leaves no room for, shows when a capture is opened.
    #[must_use]
    pub fn engines(&self) -> Vec<EngineSupport> {
        let support = |engine: &'static Engine| EngineSupport {
            engine: engine.name,
            summary: engine.summary,
            obstacle: obstacle(engine, self.index == 0),
        };
        ENGINES.iter().map(support).collect()
    }
}

fn obstacle(engine: &Engine, all_interfaces: bool) -> Option<Obstacle> {
    if !engine.is_available() {
        return Some(Obstacle::NotInThisVersion);
    }
    if all_interfaces && !engine.takes_any {
        return Some(Obstacle::OneInterface);
    }
    let missing = engine
        .needs
        .iter()
        .find(|capability| !has_capability(**capability));
    missing.copied().map(Obstacle::Capability)
}
