//! The pool of buffers, in which messages that span packets are put together.
//!
//! A buffer belongs to one flow and one direction. Pieces come in any order, may overlap and may be
//! missing; the first bytes that come for a place stay. When all buffers are in use, the one that was
//! taken first is given up.

/// Stretches of bytes that a buffer tells apart. Chrome's Initial packets have some twenty pieces.
const STRETCHES: usize = 32;
/// Payloads for which a message that is under way is waited for.
const MORE: u8 = 32;
/// The list's end, which is also its beginning.
const NONE: u16 = 0;

/// The facts about a buffer beside its bytes.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Its flow; meaningless while it is free.
    flow: u32,
    used: bool,
    from_initiator: bool,
    /// The sequence number of its first byte; of TCP.
    base: u32,
    /// Its neighbours in the list of buffers in use, oldest first; or the next free one.
    next: u16,
    before: u16,
    stretches: [(u32, u32); STRETCHES],
    count: u8,
    /// Payloads that it was kept for beyond those that are looked at anyway.
    more: u8,
    connection: Connection,
}

/// The connection identifier from which QUIC derives the keys of Initial packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connection {
    id: [u8; 20],
    len: u8,
}

impl Connection {
    pub(crate) fn new(id: &[u8]) -> Option<Self> {
        let mut connection = Self {
            id: [0; 20],
            len: u8::try_from(id.len()).ok()?,
        };
        connection.id.get_mut(..id.len())?.copy_from_slice(id);
        Some(connection)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.id[..usize::from(self.len)]
    }
}

/// A piece that has no place in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// The pool. Buffers have numbers from 1.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Element 0 is the end of both lists.
    heads: Box<[Head]>,
    bytes: Box<[u8]>,
    size: usize,
    free: u16,
    pub(crate) evicted: u64,
}

impl Buffers {
    /// Returns a pool of `count` buffers of `size` bytes.
    pub(crate) fn new(count: u16, size: usize) -> Self {
        let head = |next: u16| Head {
            flow: 0,
            used: false,
            from_initiator: false,
            base: 0,
            next,
            before: NONE,
            stretches: [(0, 0); STRETCHES],
            count: 0,
            more: 0,
            connection: Connection::default(),
        };
        let mut heads: Vec<Head> = (0..=count).map(|n| head(n.saturating_add(1))).collect();
        // The list of those in use is empty; that of free ones ends with the last.
        heads[0].next = NONE;
        heads[usize::from(count)].next = NONE;
        Self {
            heads: heads.into(),
            bytes: vec![0; usize::from(count) * size].into(),
            size,
            free: if count == 0 { NONE } else { 1 },
            evicted: 0,
        }
    }

    /// Returns whether the buffer is in use by this flow, for this direction.
    pub(crate) fn is_held(&self, number: u16, flow: u32, from_initiator: bool) -> bool {
        self.held(number, flow)
            .is_some_and(|head| head.from_initiator == from_initiator)
    }

    /// Returns whether a flow that was looked at long enough gets another payload, because a message of this
    /// direction is under way.
    pub(crate) fn goes_on(&mut self, number: u16, flow: u32, from_initiator: bool) -> bool {
        if !self.is_held(number, flow, from_initiator) {
            return false;
        }
        let head = self.head_mut(number);
        head.more += u8::from(head.more < MORE);
        head.more < MORE
    }

    /// Takes a buffer for a flow, by giving up the oldest one if need be.
    pub(crate) fn take(&mut self, flow: u32, from_initiator: bool, base: u32) -> u16 {
        if self.free == NONE {
            let oldest = self.heads[0].next;
            self.evicted += 1;
            self.release(oldest);
        }
        let number = self.free;
        self.free = self.head(number).next;
        let newest = self.heads[0].before;
        let head = self.head_mut(number);
        (head.flow, head.used, head.from_initiator) = (flow, true, from_initiator);
        (head.base, head.count, head.more) = (base, 0, 0);
        (head.before, head.next) = (newest, NONE);
        head.connection = Connection::default();
        self.head_mut(newest).next = number;
        self.heads[0].before = number;
        number
    }

    /// Gives a buffer back, if the flow still has it.
    pub(crate) fn give_back(&mut self, number: u16, flow: u32) {
        if self.held(number, flow).is_some() {
            self.release(number);
        }
    }

    pub(crate) fn connection(&self, number: u16) -> Connection {
        self.head(number).connection
    }

    pub(crate) fn set_connection(&mut self, number: u16, connection: Connection) {
        self.head_mut(number).connection = connection;
    }

    /// Adds a TCP segment by its sequence number. One that begins before the buffer's first byte adds
    /// what is behind that.
    pub(crate) fn add_segment(
        &mut self,
        number: u16,
        sequence: u32,
        data: &[u8],
    ) -> Result<(), Overrun> {
        let offset = sequence.wrapping_sub(self.head(number).base);
        if offset < 1 << 31 {
            return self.add(number, offset, data);
        }
        let before = offset.wrapping_neg() as usize;
        match data.get(before..) {
            Some(data) => self.add(number, 0, data),
            None => Ok(()),
        }
    }

    /// Returns whether a TCP segment begins before the buffer's first byte.
    pub(crate) fn is_before(&self, number: u16, sequence: u32) -> bool {
        let distance = self.head(number).base.wrapping_sub(sequence);
        distance != 0 && distance < 1 << 31
    }

    /// Makes a TCP segment the buffer's first, in front of what is there.
    pub(crate) fn put_before(
        &mut self,
        number: u16,
        sequence: u32,
        data: &[u8],
    ) -> Result<(), Overrun> {
        let shift = self.head(number).base.wrapping_sub(sequence) as usize;
        let size = self.size;
        let end = self.ranges(number).map(|(_, end)| end as usize).max();
        if end.unwrap_or(0) + shift > size {
            return Err(Overrun);
        }
        let Some(bytes) = self.bytes_mut(number) else {
            return Err(Overrun);
        };
        bytes.copy_within(..size - shift, shift);
        let head = self.head_mut(number);
        head.base = sequence;
        let moved = u32::try_from(shift).map_err(|_| Overrun)?;
        for (start, end) in &mut head.stretches[..usize::from(head.count)] {
            *start += moved;
            *end += moved;
        }
        self.add(number, 0, data)
    }

    /// Adds a piece at an offset.
    pub(crate) fn add(&mut self, number: u16, offset: u32, data: &[u8]) -> Result<(), Overrun> {
        let start = offset as usize;
        let end = start.checked_add(data.len()).ok_or(Overrun)?;
        if end > self.size {
            return Err(Overrun);
        }
        if data.is_empty() {
            return Ok(());
        }
        self.copy(number, start, data)?;
        let end = u32::try_from(end).map_err(|_| Overrun)?;
        self.head_mut(number).join(offset, end)
    }

    /// Copies a piece to its place, except what is there already.
    fn copy(&mut self, number: u16, start: usize, data: &[u8]) -> Result<(), Overrun> {
        let end = start + data.len();
        let mut at = start;
        let head = *self.head(number);
        let bytes = self.bytes_mut(number).ok_or(Overrun)?;
        for &(from, to) in &head.stretches[..usize::from(head.count)] {
            let (from, to) = (from as usize, to as usize);
            if to <= at {
                continue;
            }
            if from >= end {
                break;
            }
            if from > at {
                bytes[at..from].copy_from_slice(&data[at - start..from - start]);
            }
            at = to;
        }
        if at < end {
            bytes[at..end].copy_from_slice(&data[at - start..]);
        }
        Ok(())
    }

    /// Returns the bytes from the first one to the first gap.
    pub(crate) fn contiguous(&self, number: u16) -> &[u8] {
        let head = self.head(number);
        let end = match head.stretches.first() {
            Some(&(0, end)) if head.count > 0 => end as usize,
            _ => 0,
        };
        let start = usize::from(number.saturating_sub(1)) * self.size;
        self.bytes.get(start..start + end).unwrap_or_default()
    }

    fn ranges(&self, number: u16) -> impl Iterator<Item = (u32, u32)> {
        let head = self.head(number);
        head.stretches[..usize::from(head.count)].iter().copied()
    }

    fn bytes_mut(&mut self, number: u16) -> Option<&mut [u8]> {
        let start = usize::from(number.checked_sub(1)?) * self.size;
        self.bytes.get_mut(start..start + self.size)
    }

    fn held(&self, number: u16, flow: u32) -> Option<&Head> {
        let head = self.heads.get(usize::from(number))?;
        (number != NONE && head.used && head.flow == flow).then_some(head)
    }

    fn head(&self, number: u16) -> &Head {
        &self.heads[usize::from(number)]
    }

    fn head_mut(&mut self, number: u16) -> &mut Head {
        &mut self.heads[usize::from(number)]
    }

    fn release(&mut self, number: u16) {
        let Head { next, before, .. } = *self.head(number);
        self.head_mut(before).next = next;
        self.head_mut(next).before = before;
        let free = self.free;
        let head = self.head_mut(number);
        (head.used, head.next) = (false, free);
        self.free = number;
    }
}

impl Head {
    /// Adds a stretch, and joins those that it touches.
    fn join(&mut self, mut start: u32, mut end: u32) -> Result<(), Overrun> {
        let count = usize::from(self.count);
        let first = self.stretches[..count]
            .iter()
            .position(|(_, to)| *to >= start)
            .unwrap_or(count);
        let mut last = first;
        while last < count && self.stretches[last].0 <= end {
            start = start.min(self.stretches[last].0);
            end = end.max(self.stretches[last].1);
            last += 1;
        }
        if last == first {
            if count == STRETCHES {
                return Err(Overrun);
            }
            self.stretches.copy_within(first..count, first + 1);
            self.count += 1;
        } else {
            self.stretches.copy_within(last..count, first + 1);
            self.count -= u8::try_from(last - first - 1).map_err(|_| Overrun)?;
        }
        self.stretches[first] = (start, end);
        Ok(())
    }
}
