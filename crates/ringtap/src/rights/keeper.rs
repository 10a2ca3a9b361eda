//! The helper process that keeps capabilities until the run is over.
//!
//! Some changes stay in the kernel until a privileged process reverts them: programs at clsact, an adapter's
//! setting, threads of the kernel. The process that handles packets must not have that privilege. So the
//! process is copied when everything is open (fork(2)). The copy keeps the privilege, reads no packet, and
//! reverts the changes when the other process has ended, however it ended.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use ringtap_sys::helper::{Channel, Helper};
use ringtap_sys::poll::{self, Interest};
use ringtap_sys::privileges::{Capability, CapabilitySet};
use ringtap_sys::process::processor_time;

use super::helper::give_up;

/// How often the process looks after what it keeps privileges for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const MOUNTS: &str = "/proc/self/mountinfo";
/// The pause after a look, in times of the processor time that it took.
const REST: u32 = 4;
/// The same after a change, which may take some steps, and how many times.
const LOOK_SOON: Duration = Duration::from_millis(10);
const LOOKS_SOON: u32 = 20;

/// A part of a run that needs privileges until the run ends.
pub(crate) trait Entrusted {
    /// Returns the capabilities that it needs; none if nothing is to be done.
    fn capabilities(&self) -> Vec<Capability>;

    /// Returns whether [`Entrusted::look`] is to be called.
    fn has_to_look(&self) -> bool {
        false
    }

    /// Returns what becomes readable when there is more work than once a second.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does the work that is due once a second.
    fn look(&mut self) {}

    /// Notes, in the process that goes on, that a copy has it from now on.
    fn entrusted(&mut self) {}

    /// Reverts all changes.
    fn put_back(&mut self);
}

/// The channel to the process.
#[derive(Debug)]
pub(super) struct Keeper {
    helper: Helper,
    keeps: CapabilitySet,
}

impl Keeper {
    /// Starts the process; `before` is run in it first.
    pub(super) fn start(
        keep: &[Capability],
        entrusted: &mut dyn Entrusted,
        before: impl FnOnce(),
    ) -> ringtap_sys::Result<Self> {
        let helper = Helper::start("ringtap-undo", |channel| {
            before();
            if give_up(None, keep) {
                wait_for_the_end(channel, entrusted);
                entrusted.put_back();
            }
        })?;
        Ok(Self {
            helper,
            keeps: keep.into(),
        })
    }

    /// Describes the process in a line, for `--explain-capture`.
    pub(super) fn explain(&self) -> String {
        format!(
            "until the end: process {} keeps {}\n",
            self.helper.id(),
            self.keeps
        )
    }
}

/// Waits until the other process has ended, which closes its end of the channel. It sends nothing.
fn wait_for_the_end(channel: &Channel, entrusted: &mut dyn Entrusted) {
    let pause = entrusted.has_to_look().then_some(LOOK_EVERY);
    // A mount gives a network namespace its name.
    let mounts = entrusted.watched().and_then(|_| File::open(MOUNTS).ok());
    let mut soon = 0;
    loop {
        let end = Interest::read(channel.as_fd());
        let change = entrusted.watched().map_or(end, Interest::read);
        let mounts = mounts.as_ref();
        let mount = mounts.map_or(end, |file| Interest::change(file.as_fd()));
        let pause = pause.map(|pause| if soon > 0 { Duration::ZERO } else { pause });
        match poll::wait([end, change, mount], pause) {
            Ok([end, _, _]) if end.readable || end.failed => return,
            Ok([_, change, mount]) => {
                let has_changed = change.readable || mount.failed;
                soon = match has_changed {
                    true => LOOKS_SOON,
                    false => soon.saturating_sub(1),
                };
                let before = processor_time();
                entrusted.look();
                if soon > 0 {
                    // Changes come in groups. A look over many processes must not take a processor.
                    std::thread::sleep(LOOK_SOON.max((processor_time() - before) * REST));
                }
            }
            Err(_) => return,
        }
    }
}
