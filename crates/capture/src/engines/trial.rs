//! Whether the kernel takes an engine's program, found out by loading the smallest one.

use std::sync::{Mutex, PoisonError};

use ringtap_sys::bpf::{self, Feature, Kernel};

use super::Engine;
use crate::hook::HookError;
use crate::{Error, devices};

/// How an engine's smallest program is loaded, and what it is made of.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) load: fn(&Kernel) -> bpf::Result<()>,
    /// The features that a kernel may lack, oldest first.
    pub(crate) features: &'static [Feature],
}

/// Returns why an engine does not work on the running kernel; each engine is tried once.
pub(crate) fn obstacle(engine: &'static Engine) -> Option<devices::Obstacle> {
    type Found = (&'static str, Option<devices::Obstacle>);
    static FOUND: Mutex<Vec<Found>> = Mutex::new(Vec::new());
    let trial = engine.trial.as_ref()?;
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = found.iter().find(|(name, _)| *name == engine.name) {
        return known.clone();
    }
    let kernel = Kernel::running();
    let obstacle = (trial.load)(&kernel).err().map(|error| {
        let lacking = lacking(trial, &kernel);
        lacking.map_or_else(
            || devices::Obstacle::KernelRefuses(error.to_string()),
            devices::Obstacle::KernelLacks,
        )
    });
    found.push((engine.name, obstacle.clone()));
    obstacle
}

/// The newest thing that the kernel lacks, so that a kernel which has it has all; nothing where it refuses
/// everything, for want of rights.
fn lacking(trial: &Trial, kernel: &Kernel) -> Option<Feature> {
    Feature::Bpf.check(kernel).ok()?;
    let mut features = trial.features.iter().rev().copied();
    features.find(|feature| feature.check(kernel).is_err())
}

/// A refusal of the engine's program as what the kernel lacks for it, where that is the reason.
pub(crate) fn explain(error: Error, engine: &Engine, kernel: &Kernel, device: &str) -> Error {
    let is_refusal = matches!(
        &error,
        Error::Hook(HookError::Bpf { .. } | HookError::NoHook { .. })
    );
    let trial = engine.trial.as_ref().filter(|_| is_refusal);
    match trial.and_then(|trial| lacking(trial, kernel)) {
        Some(feature) => Error::KernelLacks {
            device: device.to_owned(),
            engine: engine.name,
            feature,
        },
        None => error,
    }
}

/// The verifier's log, where an error is about a program that it rejected.
pub(crate) fn verifier_log(error: &Error) -> Option<String> {
    match error {
        Error::Hook(HookError::Bpf {
            source: bpf::Error::Rejected(rejection),
            ..
        }) => Some(rejection.log()),
        Error::Member { source, .. } | Error::MemberNotCaptured { source, .. } => {
            verifier_log(source)
        }
        _ => None,
    }
}
