//! Counters of received and lost packets, by layer.

use crate::who::WhoLosses;

/// The counters of a source since it was opened, in packets. `None` means unknown, which is not the same as
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that reached the capture and passed a filter in the kernel, including those dropped because
    /// the ring was full.
    pub received: Option<u64>,
    /// Packets lost or left out.
    pub dropped: Dropped,
    /// How often the ring became full.
    pub freezes: Option<u64>,
    /// Packets with the host's time although the adapter's was requested: sent packets, and packets that the
    /// adapter did not stamp. The taps and AF_XDP report it.
    pub stamped_by_host: Option<u64>,
    /// Packets that were truncated more than the snaplen requires: they were longer than the interface
    /// announced at the opening, or than the 65,535 bytes that XDP can read. The taps report it.
    pub clamped: Option<u64>,
    /// Packets that were lost at XDP, of which the kernel has no buffer. A capture of dropped packets on all interfaces
    /// reports them, if the kernel has the tracepoints.
    pub xdp: Option<XdpLosses>,
    /// Facts about processes that could not be recorded. `None` unless [`crate::CaptureOptions::who`] is set.
    pub who: Option<WhoLosses>,
}

impl Stats {
    /// Adds the counters of sources that share the packets of an interface. A counter that one source does
    /// not know is unknown. Losses of the interface count once, since all sources see the same interface.
    #[must_use]
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let total = all.into_iter().reduce(|mut total, one| {
            total.received = add(total.received, one.received);
            total.freezes = add(total.freezes, one.freezes);
            total.stamped_by_host = add(total.stamped_by_host, one.stamped_by_host);
            total.clamped = add(total.clamped, one.clamped);
            total.xdp = total.xdp.or(one.xdp);
            total.who = total.who.or(one.who);
            let (dropped, more) = (&mut total.dropped, one.dropped);
            dropped.hook = add(dropped.hook, more.hook);
            dropped.sampling = add(dropped.sampling, more.sampling);
            dropped.ring = add(dropped.ring, more.ring);
            dropped.interface = dropped.interface.max(more.interface);
            dropped.before_hook = dropped.before_hook.max(more.before_hook);
            dropped.application = add(dropped.application, more.application);
            total
        });
        total.unwrap_or_default()
    }
}

/// Packets that were lost at XDP, on all interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpLosses {
    /// An XDP program has aborted, or returned what is no action.
    pub exceptions: u64,
    /// A device, processor or socket did not take what XDP has sent back or redirected to it.
    pub redirects: u64,
}

/// Packets lost or left out, by the layer where it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// At the kernel's hook, before the ring.
    pub hook: Option<u64>,
    /// Left out by sampling.
    pub sampling: Option<u64>,
    /// Because the ring was full.
    pub ring: Option<u64>,
    /// Lost by the interface or its driver, before any capture could see them: the interface's
    /// `rx_missed_errors` and `rx_fifo_errors` since the opening. Not its `rx_dropped`, which counts packets
    /// that no protocol wanted, and that a capture has seen.
    pub interface: Option<u64>,
    /// Taken before the hook by another program: packets that the interface received while none reached the
    /// capture. The taps report it on one interface, for received packets, with a precision of about a
    /// second. Unknown once another capture has taken the packets that match its filter
    /// ([`crate::Error::TakenBefore`]).
    pub before_hook: Option<u64>,
    /// By the application itself.
    pub application: Option<u64>,
}
