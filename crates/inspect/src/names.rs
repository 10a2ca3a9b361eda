//! The passive table of names: which name was asked for when DNS gave an address.
//!
//! Names are in a ring of bytes, in the order in which they were learnt; a new one takes the place of
//! the oldest ones. Addresses are in buckets of [`WAYS`] slots, each of which points into the ring.

use std::net::IpAddr;

/// Slots of a bucket.
const WAYS: usize = 4;
/// Bytes of the ring for each address. Several addresses of one answer share a name.
const RING_PER_SLOT: usize = 32;
/// The longest name, after escaping.
pub(crate) const LONGEST: usize = 255;
/// Programs keep an address at least this long, whatever its time to live says; and records are not
/// believed for longer than a day.
const TTL_SECONDS: std::ops::RangeInclusive<u32> = 60..=86_400;

#[derive(Clone, Copy, Debug)]
struct Slot {
    address: u128,
    /// The place of the name: a count of bytes since the ring was made.
    place: u64,
    /// 0: the slot is free.
    expires_ns: u64,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Names {
    slots: Box<[Slot]>,
    ring: Box<[u8]>,
    /// Bytes written to the ring so far.
    head: u64,
    seed: u64,
    pub(crate) stored: u64,
    pub(crate) evicted: u64,
}

/// A name in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Names {
    /// Returns a table for `size` addresses or a few more; it stores nothing if `size` is 0.
    pub(crate) fn new(size: u32, seed: u64) -> Self {
        let slots = match size as usize {
            0 => 0,
            size => size.next_power_of_two().max(64),
        };
        let free = Slot {
            address: 0,
            place: 0,
            expires_ns: 0,
        };
        Self {
            slots: vec![free; slots].into(),
            ring: vec![0; slots * RING_PER_SLOT].into(),
            head: 0,
            seed,
            stored: 0,
            evicted: 0,
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the name of an address at a time.
    pub(crate) fn find(&self, address: IpAddr, time_ns: u64) -> Option<&str> {
        let address = number(address);
        let slot = self.bucket(address)?.iter().find(|slot| {
            slot.expires_ns > time_ns && slot.address == address && self.holds(slot.place)
        })?;
        self.read(slot.place)
    }

    /// Stores a name that answers are about to refer to: printable UTF-8.
    pub(crate) fn add_name(&mut self, name: &[u8]) -> Option<Place> {
        let len = name.len().min(LONGEST);
        if self.is_off() || len == 0 {
            return None;
        }
        let size = self.ring.len() as u64;
        let left = size - self.head % size;
        if (len as u64) + 1 > left {
            self.head += left;
        }
        let place = self.head;
        let at = self.at(place);
        self.ring[at] = u8::try_from(len).ok()?;
        self.ring[at + 1..at + 1 + len].copy_from_slice(&name[..len]);
        self.head += len as u64 + 1;
        Some(Place(place))
    }

    /// Prolongs an address that has this name already, unless the ring forgets the name soon. Returns
    /// whether it did.
    pub(crate) fn renew(
        &mut self,
        address: IpAddr,
        name: &[u8],
        now_ns: u64,
        seconds: u32,
    ) -> bool {
        let address = number(address);
        let soon = self.head.saturating_sub(self.ring.len() as u64 / 2);
        let Some(bucket) = self.bucket(address) else {
            return false;
        };
        let found = bucket.iter().position(|slot| {
            slot.expires_ns != 0
                && slot.address == address
                && slot.place >= soon
                && self
                    .read(slot.place)
                    .is_some_and(|old| old.as_bytes() == name)
        });
        let range = self.range(address);
        let Some(slot) = found.and_then(|at| self.slots[range].get_mut(at)) else {
            return false;
        };
        slot.expires_ns = slot.expires_ns.max(expiry(now_ns, seconds));
        self.stored += 1;
        true
    }

    /// Notes that an address has a name.
    pub(crate) fn add(&mut self, address: IpAddr, name: Place, now_ns: u64, seconds: u32) {
        let address = number(address);
        let oldest_place = self.head.saturating_sub(self.ring.len() as u64);
        let range = self.range(address);
        let bucket = &mut self.slots[range];
        let same = bucket
            .iter()
            .position(|slot| slot.expires_ns != 0 && slot.address == address);
        // Slots that are free, expired or without their name first, then the one that was named first.
        let age = |slot: &Slot| match slot {
            Slot { expires_ns, .. } if *expires_ns <= now_ns => 0,
            Slot { place, .. } => place + 1,
        };
        let at = same.or_else(|| (0..bucket.len()).min_by_key(|at| age(&bucket[*at])));
        let Some(slot) = at.and_then(|at| bucket.get_mut(at)) else {
            return;
        };
        let is_other = slot.expires_ns != 0 && slot.address != address;
        let was_lost = slot.expires_ns != 0 && slot.place < oldest_place;
        if slot.expires_ns > now_ns && (is_other || was_lost) {
            self.evicted += 1;
        }
        *slot = Slot {
            address,
            place: name.0,
            expires_ns: expiry(now_ns, seconds),
        };
        self.stored += 1;
    }

    fn at(&self, place: u64) -> usize {
        // Below the ring's length.
        usize::try_from(place % self.ring.len().max(1) as u64).unwrap_or(0)
    }

    /// Returns whether the ring has not come round since the name was stored.
    fn holds(&self, place: u64) -> bool {
        place + self.ring.len() as u64 >= self.head
    }

    fn read(&self, place: u64) -> Option<&str> {
        let at = self.at(place);
        let len = usize::from(*self.ring.get(at)?);
        str::from_utf8(self.ring.get(at + 1..at + 1 + len)?).ok()
    }

    fn bucket(&self, address: u128) -> Option<&[Slot]> {
        self.slots.get(self.range(address))
    }

    fn range(&self, address: u128) -> std::ops::Range<usize> {
        let buckets = self.slots.len() / WAYS;
        if buckets == 0 {
            return 0..0;
        }
        let start = (mix(address, self.seed) & (buckets - 1)) * WAYS;
        start..start + WAYS
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a hash of both halves of the number"
)]
fn mix(address: u128, seed: u64) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let folded = (address as u64 ^ seed).wrapping_mul(ODD) ^ (address >> 64) as u64;
    let mixed = (folded ^ folded >> 32).wrapping_mul(ODD);
    (mixed ^ mixed >> 29) as usize
}

/// Returns the address as a number; IPv4 as mapped into IPv6.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn expiry(now_ns: u64, seconds: u32) -> u64 {
    let seconds = seconds.clamp(*TTL_SECONDS.start(), *TTL_SECONDS.end());
    now_ns.saturating_add(u64::from(seconds) * 1_000_000_000)
}
