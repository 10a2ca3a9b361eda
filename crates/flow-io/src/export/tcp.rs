//! Sends to a TCP collector (RFC 7011, section 10.4): a thread that connects, sends, and connects again.
//!
//! Records wait in a bounded queue while there is no connection. Records that find no room are lost and
//! counted. A new connection is a new session: templates first, sequence numbers from 0. When a connection
//! breaks, data that the system had already accepted may be lost too; this cannot be detected.

use std::io::{self, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ringtap_flow::FlowRecord;
use ringtap_flow::export::{Encoder, Message, Statistics};

use super::Teller;
use super::batch::Sums;
use super::queue::{Queue, Taken};
use crate::places::Places;
use crate::{CollectorAddress, ExportReport, OutputError, OutputOptions};

/// Messages need not fit a datagram.
const MESSAGE: u16 = 16_384;
/// The number of records that are handed to the thread at once.
const BATCH: usize = 64;
/// The interval at which time advances when no records come.
const TICK: Duration = Duration::from_millis(250);
/// The time limit for a connection attempt.
const CONNECTING: Duration = Duration::from_secs(3);
/// The time limit for a collector to read, before the connection counts as broken.
const WRITING: Duration = Duration::from_secs(5);
/// The pauses between connection attempts: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// The metering thread's side.
pub(super) struct TcpExporter {
    shared: Arc<Shared>,
    batch: Vec<FlowRecord>,
    wait: bool,
    notify: fn(&str),
    work: Work,
}

/// The thread starts with the first record. Before that, the program may still give up privileges, which
/// applies only to threads that do not exist yet.
enum Work {
    ToBegin(Box<Sender>),
    Begun(JoinHandle<()>),
    Ended,
}

struct Shared {
    queue: Queue,
    report: Mutex<ExportReport>,
}

impl Shared {
    fn report(&self) -> MutexGuard<'_, ExportReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TcpExporter {
    pub(super) fn open(
        collector: &CollectorAddress,
        options: &OutputOptions,
        places: Arc<Places>,
    ) -> Result<Self, OutputError> {
        let address = collector.0.resolve()?;
        let encoder = Encoder::new(options.export.max_message(MESSAGE).refresh(None))?;
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            report: Mutex::new(ExportReport {
                collector: collector.to_string(),
                connections: Some(0),
                ..ExportReport::default()
            }),
        });
        let link = Link {
            address,
            stream: None,
            pause: FIRST_PAUSE,
            next_attempt: Instant::now(),
            teller: Teller::new(collector, options),
        };
        let mut sender = Sender {
            shared: Arc::clone(&shared),
            encoder,
            places,
            link,
        };
        if options.wait {
            // A file is read faster than a connection is made.
            sender.connect();
        }
        Ok(Self {
            shared,
            batch: Vec::with_capacity(BATCH),
            wait: options.wait,
            notify: options.notify,
            work: Work::ToBegin(Box::new(sender)),
        })
    }

    pub(super) fn record(&mut self, record: &FlowRecord) {
        self.batch.push(record.clone());
        if self.batch.len() >= BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            self.begin();
            let lost = self.shared.queue.put(&mut self.batch, self.wait);
            self.shared.report().lost_flows += lost;
        }
    }

    /// Starts the thread, unless it is running. If that fails, records find no room in the end.
    fn begin(&mut self) {
        self.work = match std::mem::replace(&mut self.work, Work::Ended) {
            Work::ToBegin(sender) => {
                let thread = thread::Builder::new().name("export".into());
                match thread.spawn(move || sender.run()) {
                    Ok(thread) => Work::Begun(thread),
                    Err(error) => {
                        (self.notify)(&format!("cannot start a thread for export: {error}"));
                        self.shared.queue.set_connected(false);
                        Work::Ended
                    }
                }
            }
            work => work,
        };
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        self.shared.queue.set_time(now_ns);
        self.hand_over();
    }

    pub(super) fn set_statistics(&self, statistics: Statistics) {
        self.shared.queue.set_statistics(statistics);
    }

    /// Hands over the rest, and waits until it is sent or lost.
    pub(super) fn finish(&mut self) {
        self.hand_over();
        self.begin();
        self.shared.queue.close();
        if let Work::Begun(thread) = std::mem::replace(&mut self.work, Work::Ended) {
            // A panicked thread has already reported it.
            let _ = thread.join();
        }
        // Without a connection, or without a thread.
        self.shared.report().lost_flows += self.shared.queue.discard();
    }

    pub(super) fn report(&self) -> ExportReport {
        self.shared.report().clone()
    }
}

/// The thread.
struct Sender {
    shared: Arc<Shared>,
    encoder: Encoder,
    places: Arc<Places>,
    link: Link,
}

/// The connection, when there is one.
struct Link {
    address: SocketAddr,
    stream: Option<TcpStream>,
    pause: Duration,
    next_attempt: Instant,
    teller: Teller,
}

impl Sender {
    fn run(mut self) {
        let mut taken = Taken::default();
        let mut closed = false;
        while !closed {
            if !self.connect() {
                // Records wait in the queue in the meantime. At the end there is one more attempt.
                let pause = self
                    .link
                    .next_attempt
                    .saturating_duration_since(Instant::now());
                closed = self.shared.queue.wait_closed(pause);
                if closed {
                    self.link.next_attempt = Instant::now();
                    closed = !self.connect();
                }
                continue;
            }
            self.shared.queue.take(&mut taken, TICK);
            closed = taken.closed;
            self.send(&taken);
        }
    }

    /// Connects if there is no connection and the pause is over.
    fn connect(&mut self) -> bool {
        if self.link.is_open() {
            return true;
        }
        if self.link.stream.take().is_some() {
            self.shared.queue.set_connected(false);
        }
        if !self.link.connect() {
            return false;
        }
        self.encoder.restart();
        *self.shared.report().connections.get_or_insert(0) += 1;
        self.shared.queue.set_connected(true);
        true
    }

    fn send(&mut self, taken: &Taken) {
        let Self {
            shared,
            encoder,
            places,
            link,
        } = self;
        let mut write = |message: Message<'_>| {
            let is_sent = link.write(message.bytes);
            shared.report().count(Sums::of(&message), is_sent);
        };
        encoder.set_statistics(taken.statistics);
        encoder.advance(taken.now_ns, &mut write);
        for record in &taken.records {
            encoder.row(&places.row(record), &mut write);
        }
        // A file's reader has all records at once, and no clock that advances.
        if taken.closed {
            encoder.finish(&mut write);
        }
        shared.report().clamped = encoder.counters().clamped;
        if link.stream.is_none() {
            shared.queue.set_connected(false);
        }
    }
}

impl Link {
    /// Returns whether there is a connection that the collector has not closed.
    fn is_open(&self) -> bool {
        let Some(stream) = &self.stream else {
            return false;
        };
        let mut byte = [0];
        let looked = stream
            .set_nonblocking(true)
            .and_then(|()| stream.peek(&mut byte));
        let open = match looked {
            // A collector sends nothing. If it does, the data is ignored.
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        open && stream.set_nonblocking(false).is_ok()
    }

    fn connect(&mut self) -> bool {
        if Instant::now() < self.next_attempt {
            return false;
        }
        let connected = TcpStream::connect_timeout(&self.address, CONNECTING).and_then(|stream| {
            stream.set_write_timeout(Some(WRITING))?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => {
                self.teller.connected();
                self.stream = Some(stream);
                self.pause = FIRST_PAUSE;
                true
            }
            Err(error) => {
                self.failed(&error);
                self.pause = (self.pause * 2).min(LAST_PAUSE);
                false
            }
        }
    }

    /// Writes a whole message. If that fails, the connection is closed, since a partial message would corrupt
    /// all that follow.
    fn write(&mut self, message: &[u8]) -> bool {
        let Some(stream) = &mut self.stream else {
            return false;
        };
        match stream.write_all(message) {
            Ok(()) => true,
            Err(error) => {
                self.stream = None;
                self.failed(&error);
                false
            }
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.next_attempt = Instant::now() + self.pause;
        self.teller.failed(error, ", connecting again");
    }
}
