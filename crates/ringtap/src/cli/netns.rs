//! The network namespace of a run.

use std::path::{Path, PathBuf};

use clap::Args;
use ringtap_sys::Error;
use ringtap_sys::netns::Namespace;

use super::Command;
use crate::containers::{self, ContainerError};

/// The folder of namespaces with names, which ip-netns(8) makes.
pub(crate) const NAMED: &str = "/run/netns";

/// The value that stands for all network namespaces.
const ALL: &str = "all";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NetnsArg {
    /// Work in this network namespace: a name of ip netns, the number of a process in it, or a path.
    /// "all" stands for all of them, for dump, flow and record on all interfaces (-i any)
    #[arg(long, value_name = "NETNS", help_heading = "Network namespace")]
    netns: Option<String>,
    /// Work in the network namespace of this container: its name, its id or the first digits of it, or
    /// the UID or name of its pod
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "netns",
        help_heading = "Network namespace"
    )]
    container: Option<String>,
}

impl NetnsArg {
    /// Returns whether all network namespaces are meant.
    pub(crate) fn is_all(&self) -> bool {
        self.netns.as_deref() == Some(ALL)
    }

    /// Moves the calling thread, and those that it starts from now on, into the namespace. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// There is no such namespace, or the privilege is missing.
    pub(crate) fn enter(&self) -> Result<(), NetnsError> {
        let (option, given, path) = match (&self.netns, &self.container) {
            _ if self.is_all() => return Ok(()),
            (Some(given), _) => ("netns", given, path(given)),
            (None, Some(given)) => {
                let failed = |source| NetnsError::Container {
                    given: given.clone(),
                    source,
                };
                let pid = containers::process_of(given).map_err(failed)?;
                ("container", given, path(&pid.to_string()))
            }
            (None, None) => return Ok(()),
        };
        let entered = Namespace::open(&path).and_then(|namespace| namespace.enter());
        entered.map_err(|source| NetnsError::Namespace {
            option,
            given: given.clone(),
            source,
        })
    }
}

/// A network namespace cannot be entered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetnsError {
    #[error("--{option} {given}: {source}")]
    Namespace {
        option: &'static str,
        given: String,
        r#source: Error,
    },
    #[error(
        "--netns all: dump, flow and record capture in all network namespaces, on all interfaces (-i any); \
         a namespace named \"all\" is given as a path"
    )]
    OneOnly,
    #[error("--container {given}: {source}")]
    Container {
        given: String,
        r#source: ContainerError,
    },
}

/// Returns the file of a namespace.
fn path(given: &str) -> PathBuf {
    if given.contains('/') {
        return given.into();
    }
    if !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("/proc/{given}/ns/net").into();
    }
    Path::new(NAMED).join(given)
}

impl Command {
    /// Checks that a command that is to work in all network namespaces can.
    ///
    /// # Errors
    /// It works in one.
    pub(crate) fn check_netns(&self) -> Result<(), NetnsError> {
        let can = match self {
            Self::Dump(args) => args.source.read.is_empty(),
            Self::Flow(_) | Self::Record(_) => true,
            _ => false,
        };
        match can || !self.netns().is_some_and(NetnsArg::is_all) {
            true => Ok(()),
            false => Err(NetnsError::OneOnly),
        }
    }

    /// Returns the network namespace in which the whole command works. `web` is not among them: it serves where it
    /// was started.
    pub(crate) fn netns(&self) -> Option<&NetnsArg> {
        match self {
            Self::Devices(args) => Some(&args.netns),
            Self::Dump(args) => Some(&args.netns),
            Self::Stat(args) => Some(&args.netns),
            Self::ExplainLoss(args) => Some(&args.netns),
            Self::Top(args) => Some(&args.look.netns),
            Self::Flow(args) => Some(&args.netns),
            Self::Record(args) => Some(&args.netns),
            Self::Generate(args) => Some(&args.common.netns),
            Self::Send(args) => Some(&args.common.netns),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_names_numbers_or_paths() {
        for (given, expected) in [
            ("blue", "/run/netns/blue"),
            ("1234", "/proc/1234/ns/net"),
            ("12ab", "/run/netns/12ab"),
            ("./12", "./12"),
            ("/proc/self/ns/net", "/proc/self/ns/net"),
        ] {
            assert_eq!(path(given), Path::new(expected), "{given}");
        }
    }
}
