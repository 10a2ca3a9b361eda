//! Detects whether received packets of an interface reach a program at one of its hooks.
//!
//! A later program may be placed before it, there or at an earlier hook, and take packets away. The kernel
//! shows such programs only with `CAP_NET_ADMIN`, which a capture has given up. But anybody may read the
//! interface's own counters: if they increase and the program does not run, another program takes the
//! packets.

use std::time::{Duration, Instant};

use ringtap_sys::netlink::Netlink;

use super::HookPoint;
use crate::Error;

/// The minimum time between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the interface's counter must have increased while the program did not run. Once is not enough:
/// some drivers update it a second or so after the packets.
const ADVANCES: u32 = 2;

/// A change since the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Packets no longer reach the program; this many did not so far.
    Blind { packets: u64 },
    /// They do again; this many did not in the meantime.
    Sees { packets: u64 },
}

impl Change {
    /// Returns the change in the form of a report.
    pub(crate) fn into_error(self, device: String, hook: HookPoint) -> Error {
        let hook = hook.to_string();
        match self {
            Self::Blind { packets } => Error::Blind {
                device,
                hook,
                packets,
            },
            Self::Sees { packets } => Error::SeesAgain {
                device,
                hook,
                packets,
            },
        }
    }
}

/// A watched hook for received packets. It costs one request to the kernel for each second without packets,
/// and nothing else.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Bound to the network namespace of the thread that opened it.
    netlink: Netlink,
    index: u32,
    looked: Instant,
    state: State,
}

impl Sight {
    /// Starts to watch the interface with this number.
    pub(crate) fn new(netlink: Netlink, index: u32) -> Self {
        Self {
            netlink,
            index,
            looked: Instant::now(),
            state: State::default(),
        }
    }

    /// Returns whether it is time to check again.
    pub(crate) fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// Checks; `has_run` means that the program has run since the last check.
    pub(crate) fn look(&mut self, has_run: bool) -> Option<Change> {
        self.looked = Instant::now();
        if has_run {
            return self.state.run();
        }
        // A removed interface is reported elsewhere.
        let received = self.received()?;
        self.state.not_run(received)
    }

    /// Returns the packets so far that the interface received while none reached the program.
    pub(crate) fn missed(&mut self) -> u64 {
        let now = match self.state.blind_since {
            Some(_) => self.received(),
            None => None,
        };
        self.state.missed(now)
    }

    fn received(&mut self) -> Option<u64> {
        let link = self.netlink.link_at(self.index).ok()?;
        Some(link.counters.rx_packets)
    }
}

/// The results of the checks so far.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The interface's counter at the first check since the program has run, and at the last one.
    counter: Option<(u64, u64)>,
    /// How often it has increased since.
    advances: u32,
    /// The counter's value since which packets are missing, if they are.
    blind_since: Option<u64>,
    /// Packets that were missed before.
    missed: u64,
}

impl State {
    fn run(&mut self) -> Option<Change> {
        let (counter, since) = (self.counter.take(), self.blind_since.take());
        self.advances = 0;
        let ((_, last), since) = (counter?, since?);
        let packets = last.saturating_sub(since);
        self.missed += packets;
        Some(Change::Sees { packets })
    }

    fn not_run(&mut self, received: u64) -> Option<Change> {
        let Some((first, last)) = self.counter.filter(|&(_, last)| last <= received) else {
            // The first check, or the counter was reset.
            self.counter = Some((received, received));
            self.blind_since = self.blind_since.map(|_| received);
            return None;
        };
        self.counter = Some((first, received));
        self.advances += u32::from(received > last);
        if self.blind_since.is_some() || self.advances < ADVANCES {
            return None;
        }
        self.blind_since = Some(first);
        let packets = received - first;
        Some(Change::Blind { packets })
    }

    fn missed(&self, received: Option<u64>) -> u64 {
        let now = received.zip(self.blind_since);
        self.missed + now.map_or(0, |(received, since)| received.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reported_once() {
        let mut state = State::default();
        assert_eq!(state.run(), None);
        assert_eq!(state.not_run(100), None, "packets from before");
        assert_eq!(state.not_run(103), None, "a counter that was late");
        assert_eq!(state.not_run(103), None);
        assert_eq!(state.not_run(105), Some(Change::Blind { packets: 5 }));
        assert_eq!(state.not_run(200), None);
        assert_eq!(state.missed(Some(210)), 110);
        assert_eq!(state.run(), Some(Change::Sees { packets: 100 }));
        assert_eq!(state.run(), None);
        assert_eq!(state.missed(Some(1_000)), 100);
    }

    #[test]
    fn a_silent_interface_is_no_blind_one() {
        let mut state = State::default();
        for _ in 0..10 {
            assert_eq!(state.not_run(100), None);
        }
        assert_eq!(state.not_run(101), None);
        assert_eq!(state.run(), None);
        for received in [102, 103] {
            assert_eq!(state.not_run(received), None, "it begins anew");
        }
        assert_eq!(state.missed(Some(103)), 0);
    }

    #[test]
    fn counters_may_be_set_back() {
        let mut state = State::default();
        for received in [100, 101, 0, 0] {
            assert_eq!(state.not_run(received), None);
        }
        assert_eq!(state.not_run(1), Some(Change::Blind { packets: 1 }));
        assert_eq!(state.not_run(0), None);
        assert_eq!(state.missed(Some(3)), 3);
    }
}
