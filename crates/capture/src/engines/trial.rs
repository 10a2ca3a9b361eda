//! Tests whether the kernel accepts an engine's program, by loading the smallest one.

use std::sync::{Mutex, PoisonError};

use ringtap_sys::bpf::{self, Feature, Kernel};

use super::Engine;
use crate::hook::HookError;
use crate::{Error, devices};

/// How to load an engine's smallest program, and its parts.
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

/// Returns the newest feature that the kernel lacks; a kernel with it has all. `None` if the kernel rejects
/// everything because of missing privileges.
fn lacking(trial: &Trial, kernel: &Kernel) -> Option<Feature> {
    Feature::Bpf.check(kernel).ok()?;
    let mut features = trial.features.iter().rev().copied();
    features.find(|feature| feature.check(kernel).is_err())
}

/// Converts a rejected program into the missing feature, if that is the reason.
pub(crate) fn explain(error: Error, engine: &Engine, kernel: &Kernel, device: &str) -> Error {
    let is_refusal = matches!(
        &error,
        Error::Hook(HookError::Bpf { .. } | HookError::NoHook { .. }) | Error::Who { .. }
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

/// Returns the verifier's log, if the error is a rejected program.
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
