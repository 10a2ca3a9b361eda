//! Restricts files with Landlock.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Fence, Needs, Obstacle};

/// The newest version of Landlock whose privileges are used; older kernels apply those that they know.
const NEWEST: ABI = ABI::V6;

pub(super) fn restrict(needs: &Needs) -> Result<Fence, Obstacle> {
    let everything = AccessFs::from_all(NEWEST);
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let writing = reading
        | AccessFs::WriteFile
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
        | AccessFs::Truncate;
    let arranging = writing | AccessFs::MakeDir | AccessFs::RemoveDir;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(NEWEST))?;
    if !needs.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    // A missing file needs no rule; neither does a pipe named in procfs.
    let there = |paths: &[PathBuf]| -> Vec<PathBuf> {
        let found = paths.iter().filter_map(|path| path.canonicalize().ok());
        found.collect()
    };
    let (read, write) = (there(&needs.read), there(&needs.write));
    let arrange = there(&needs.arrange);
    let rules = read.len() + write.len() + arrange.len();
    let status = ruleset
        .create()?
        .add_rules(path_beneath_rules(read, reading))?
        .add_rules(path_beneath_rules(write, writing))?
        .add_rules(path_beneath_rules(arrange, arranging))?
        .restrict_self()?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        _ => return Err(Obstacle::NoLandlock),
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(Obstacle::NoLandlock);
    }
    Ok(Fence {
        version,
        rules,
        without_tcp: !needs.network && version >= ABI::V4 as i32,
    })
}
