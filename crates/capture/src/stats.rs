//! What a source received and lost, by layer.

/// Counters of a source since it was opened, in packets. `None` where a count is not known, which
/// is not the same as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that reached the capture and passed a filter in the kernel, the ones dropped in the
    /// ring among them.
    pub received: Option<u64>,
    /// Packets lost or left out.
    pub dropped: Dropped,
    /// How often the ring became full.
    pub freezes: Option<u64>,
    /// Packets with the host's time, where the adapter's was asked for and it had none of them: sent
    /// ones, and those that it did not stamp. Known to the taps and AF_XDP.
    pub stamped_by_host: Option<u64>,
    /// Packets of which less was kept than length and snaplen ask for: they were longer than what the
    /// interface told at the opening, or than the 65,535 bytes that XDP hands out. Known to the taps.
    pub clamped: Option<u64>,
}

impl Stats {
    /// The counters of sources that share the packets of an interface. What one source does not know is
    /// not known; what the interface lost is counted once, for all sources see the same interface.
    #[must_use]
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let total = all.into_iter().reduce(|mut total, one| {
            total.received = add(total.received, one.received);
            total.freezes = add(total.freezes, one.freezes);
            total.stamped_by_host = add(total.stamped_by_host, one.stamped_by_host);
            total.clamped = add(total.clamped, one.clamped);
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

/// Packets lost or left out, by the layer where it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// At the kernel's hook, before the ring.
    pub hook: Option<u64>,
    /// Left out on purpose, by sampling.
    pub sampling: Option<u64>,
    /// For want of room in the ring.
    pub ring: Option<u64>,
    /// By the interface or its driver, before any capture could see them: the interface's
    /// `rx_missed_errors` and `rx_fifo_errors`, counted from the opening on. Not its `rx_dropped`,
    /// which counts packets that no protocol wanted, and which a capture has seen.
    pub interface: Option<u64>,
    /// Before the hook, by another program: packets that the interface received while none reached the
    /// capture. Known to the taps on one interface, for received packets; a number that is right to a
    /// second or so. Unknown once another capture has taken what its filter matches
    /// ([`crate::Error::TakenBefore`]).
    pub before_hook: Option<u64>,
    /// By the application itself.
    pub application: Option<u64>,
}
