//! The queue of records that wait for a connection. It is bounded. The metering thread puts records in, and
//! the sending thread takes them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringtap_flow::FlowRecord;
use ringtap_flow::export::Statistics;

/// The maximum number of records that wait. Each takes about 300 bytes.
pub(super) const CAPACITY: usize = 32_768;

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Taken,
    /// Whether the other side has a connection, so that it makes sense to wait for room.
    connected: bool,
}

/// The content of the queue.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) records: Vec<FlowRecord>,
    /// The clock of the packets, in nanoseconds since 1970.
    pub(super) now_ns: u64,
    pub(super) statistics: Statistics,
    /// Whether the queue is closed.
    pub(super) closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves records into the queue, and returns how many found no room. With `wait`, it waits for room while
    /// there is a connection.
    pub(super) fn put(&self, records: &mut Vec<FlowRecord>, wait: bool) -> u64 {
        let is_full =
            |state: &mut State| wait && state.connected && state.waiting.records.len() >= CAPACITY;
        let waited = self.emptied.wait_while(self.lock(), is_full);
        let waiting = &mut waited.unwrap_or_else(PoisonError::into_inner).waiting;
        let room = CAPACITY.saturating_sub(waiting.records.len());
        let fitting = room.min(records.len());
        waiting.records.extend(records.drain(..fitting));
        let lost = records.len() as u64;
        records.clear();
        self.filled.notify_one();
        lost
    }

    pub(super) fn set_time(&self, now_ns: u64) {
        self.lock().waiting.now_ns = now_ns;
    }

    pub(super) fn set_statistics(&self, statistics: Statistics) {
        self.lock().waiting.statistics = statistics;
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.lock().connected = connected;
        self.emptied.notify_one();
    }

    /// Closes the queue.
    pub(super) fn close(&self) {
        self.lock().waiting.closed = true;
        self.filled.notify_one();
    }

    /// Takes all records, after waiting at most this long for one. The content of `into` is dropped, and its
    /// memory is used again.
    pub(super) fn take(&self, into: &mut Taken, longest: Duration) {
        into.records.clear();
        let mut state = self.wait_while(longest, |state| {
            state.waiting.records.is_empty() && !state.waiting.closed
        });
        std::mem::swap(&mut state.waiting.records, &mut into.records);
        into.now_ns = state.waiting.now_ns;
        into.statistics = state.waiting.statistics;
        into.closed = state.waiting.closed;
        self.emptied.notify_one();
    }

    /// Waits at most this long for the queue to be closed. Returns whether it was.
    pub(super) fn wait_closed(&self, longest: Duration) -> bool {
        let state = self.wait_while(longest, |state| !state.waiting.closed);
        state.waiting.closed
    }

    fn wait_while(
        &self,
        longest: Duration,
        is_early: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let is_early = |state: &mut State| is_early(state);
        let waited = self
            .filled
            .wait_timeout_while(self.lock(), longest, is_early);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Drops the waiting records, and returns their number.
    pub(super) fn discard(&self) -> u64 {
        let records = &mut self.lock().waiting.records;
        records.drain(..).len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: usize) -> Vec<FlowRecord> {
        vec![FlowRecord::default(); count]
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let queue = Queue::default();
        assert_eq!(queue.put(&mut records(CAPACITY - 1), true), 0);
        assert_eq!(
            queue.put(&mut records(3), true),
            2,
            "no connection: no wait"
        );
        let mut taken = Taken::default();
        queue.take(&mut taken, Duration::ZERO);
        assert_eq!(taken.records.len(), CAPACITY);
        assert_eq!(queue.put(&mut records(1), false), 0);
        assert_eq!(queue.discard(), 1);
    }

    #[test]
    fn a_file_waits_for_a_connection_that_is_slow() {
        let queue = Queue::default();
        queue.set_connected(true);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0..4)
                    .map(|_| queue.put(&mut records(CAPACITY), true))
                    .sum::<u64>()
            });
            let mut taken = Taken::default();
            let mut count = 0;
            while count < 4 * CAPACITY {
                queue.take(&mut taken, Duration::from_secs(10));
                count += taken.records.len();
            }
            assert_eq!(writer.join().unwrap(), 0, "none was lost");
        });
    }

    #[test]
    fn a_broken_connection_lets_the_writer_go_on() {
        let queue = Queue::default();
        queue.set_connected(true);
        assert_eq!(queue.put(&mut records(CAPACITY), true), 0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| queue.put(&mut records(5), true));
            queue.set_connected(false);
            assert_eq!(writer.join().unwrap(), 5);
        });
    }
}
