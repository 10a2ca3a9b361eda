//! The way from the meter to the model: a bounded queue that the meter never waits for.
//!
//! Data in: records, on the thread that meters. Data out: batches of them, to the thread of the model.
//! Where the queue is full, a batch is dropped and counted; the model shows the count. A file's reader
//! waits instead.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use ringtap_flow::{Counters, FlowRecord, FlowSink, Reported};

use crate::Look;

/// Records of a batch, and batches that may wait.
const BATCH: usize = 256;
const QUEUE: usize = 64;

/// A record with what is new in it.
#[derive(Clone, Debug)]
pub struct News {
    /// The flow, under way or ended.
    pub record: FlowRecord,
    /// Counters that were in earlier news.
    pub reported: Reported,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// Packets that a source lost so far, by layer; `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// By the interface.
    pub interface: Option<u64>,
    /// Taken by another program before the hook.
    pub before_hook: Option<u64>,
    /// At the hook.
    pub hook: Option<u64>,
    /// In the ring.
    pub ring: Option<u64>,
    /// Left out by sampling, which is no loss.
    pub sampling: Option<u64>,
}

/// The report that comes about once a second, and at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// The time of packets, or live the time of the day: nanoseconds since 1970.
    pub now_ns: u64,
    /// The meter's counters.
    pub counters: Counters,
    /// The source's losses.
    pub lost: Lost,
}

enum Message {
    News(Vec<News>),
    Tick(Box<Tick>),
}

/// Whether the meter waits where the model cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Drop, and count it: for live captures.
    Drop,
    /// Wait: for files.
    Wait,
}

/// The meter's end of the queue; it is a sink of records.
#[derive(Debug)]
pub struct Feed {
    batch: Vec<News>,
    queue: SyncSender<Message>,
    spares: Receiver<Vec<News>>,
    when_full: WhenFull,
    dropped: Arc<AtomicU64>,
}

/// The model's end of the queue.
#[derive(Debug)]
pub struct Inlet {
    queue: Receiver<Message>,
    spares: SyncSender<Vec<News>>,
    dropped: Arc<AtomicU64>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::News(news) => write!(f, "{} news", news.len()),
            Self::Tick(tick) => tick.fmt(f),
        }
    }
}

/// Returns both ends of a queue.
#[must_use]
pub fn queue(when_full: WhenFull) -> (Feed, Inlet) {
    let (to_model, from_meter) = mpsc::sync_channel(QUEUE);
    let (to_meter, spares) = mpsc::sync_channel(QUEUE);
    let dropped = Arc::new(AtomicU64::new(0));
    let feed = Feed {
        batch: Vec::with_capacity(BATCH),
        queue: to_model,
        spares,
        when_full,
        dropped: Arc::clone(&dropped),
    };
    let inlet = Inlet {
        queue: from_meter,
        spares: to_meter,
        dropped,
    };
    (feed, inlet)
}

impl Feed {
    /// Takes a record of another exporter, of which nothing was reported before.
    pub fn collected(&mut self, record: &FlowRecord) {
        self.push(record, &Reported::default(), true);
    }

    fn push(&mut self, record: &FlowRecord, reported: &Reported, has_ended: bool) {
        self.batch.push(News {
            record: record.clone(),
            reported: *reported,
            has_ended,
        });
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let spare = self.spares.try_recv();
        let spare = spare.unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.batch, spare);
        self.send(Message::News(batch));
    }

    fn send(&mut self, message: Message) {
        if self.when_full == WhenFull::Wait {
            // Nobody takes it any more where the program ends.
            let _ = self.queue.send(message);
            return;
        }
        if let Err(TrySendError::Full(message)) = self.queue.try_send(message)
            && let Message::News(mut news) = message
        {
            self.dropped.fetch_add(news.len() as u64, Ordering::Relaxed);
            news.clear();
            self.batch = news;
        }
    }

    /// Hands over what has waited, then the time and the counters.
    pub fn tick(&mut self, tick: Tick) {
        self.hand_over();
        self.send(Message::Tick(Box::new(tick)));
    }
}

impl FlowSink for Feed {
    fn record(&mut self, record: &FlowRecord) {
        self.push(record, &Reported::default(), true);
    }

    fn interim(&mut self, record: &FlowRecord, reported: &Reported) {
        self.push(record, reported, false);
    }

    fn ended(&mut self, record: &FlowRecord, reported: &Reported) {
        self.push(record, reported, true);
    }
}

impl Inlet {
    /// Feeds the model until the meter's end of the queue is gone; `ticked` is called after each tick,
    /// with the model not locked, and with true at the end. It is the life of a thread.
    pub fn run(self, look: &Mutex<Look>, mut ticked: impl FnMut(bool)) {
        while let Ok(message) = self.queue.recv() {
            match message {
                Message::News(mut news) => {
                    {
                        let mut look = look.lock().unwrap_or_else(PoisonError::into_inner);
                        news.iter().for_each(|news| look.news(news));
                    }
                    news.clear();
                    let _ = self.spares.try_send(news);
                }
                Message::Tick(tick) => {
                    let dropped = self.dropped.load(Ordering::Relaxed);
                    let mut look = look.lock().unwrap_or_else(PoisonError::into_inner);
                    look.tick(&tick, dropped);
                    drop(look);
                    ticked(false);
                }
            }
        }
        ticked(true);
    }
}
