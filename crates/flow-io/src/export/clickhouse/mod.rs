//! Inserts records into a table of ClickHouse, over HTTP.
//!
//! The metering thread writes rows into a batch. A thread sends each batch, and sends it again until the server has
//! taken it: with the same token (`insert_deduplication_token`), by which the server recognises a batch that it has.
//! So a record is in the table once, unless it is counted as lost: because the queue of batches was full, because the
//! server refused the batch, or because the server was away when the run ended.
//!
//! With a [spool](spool), batches go through a file on the disk: then neither a server that is away nor the end of the run
//! loses any, as long as the file has room, nor an error that somebody can mend.
//!
//! Source: <https://clickhouse.com/docs/interfaces/http>.

mod rows;
mod sender;
mod server;
mod spool;
#[cfg(test)]
mod tests;

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_flow::schema::Row;

use super::Teller;
use crate::{CollectorAddress, ExportReport, OutputError, OutputOptions};
use rows::Rows;
use sender::Sender;
use server::Server;
pub use spool::Spools;
use spool::{Refused, Spool};

/// A batch is sent when it has this many records or bytes, or is this old.
const RECORDS: u64 = 65_536;
const BYTES: usize = 16 << 20;
const AGE: Duration = Duration::from_secs(2);
/// The number of batches that wait while the server is away, in a live run: 64 MiB at most beside those that are written
/// and sent.
const QUEUE: usize = 4;
/// How long the end of a run waits for a server that is away.
const REST: Duration = Duration::from_secs(5);
/// How long the thread that sends from a spool may take beyond that.
const MARGIN: Duration = Duration::from_secs(2);
/// The time between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The metering thread's side.
pub(super) struct ClickHouse {
    rows: Rows,
    /// The name of records that were metered here.
    exporter: String,
    batch: Batch,
    began: Instant,
    wait: bool,
    shared: Arc<Shared>,
    /// The batches and the records that were to be sent.
    handed_over: (u64, u64),
    spool: Option<Arc<Spool>>,
    work: Work,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: u64,
}

/// The thread starts with the first batch: before, the program may still give up privileges.
enum Work {
    ToBegin(Box<Sender>),
    Begun(SyncSender<Batch>, Vec<JoinHandle<()>>),
    Ended,
}

struct Shared {
    report: Mutex<ExportReport>,
    /// When the run ends, the server has until this time.
    ends: Mutex<Option<Instant>>,
}

impl Shared {
    /// Counts a batch of this number of records as lost.
    fn lose(&self, records: u64) {
        let mut report = self.report();
        report.lost_messages += 1;
        report.lost_flows += records;
    }

    fn report(&self) -> MutexGuard<'_, ExportReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> MutexGuard<'_, Option<Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClickHouse {
    pub(super) fn open(
        address: &CollectorAddress,
        options: &OutputOptions,
        (exporter, spools): (&str, &mut Spools),
    ) -> Result<Self, OutputError> {
        let rows = Rows::new(options.export.fields);
        let (server, table) = Server::new(address)?;
        let shared = Arc::new(Shared {
            report: Mutex::new(ExportReport {
                collector: address.to_string(),
                ..ExportReport::default()
            }),
            ends: Mutex::new(None),
        });
        let sender = Sender {
            server,
            statement: rows.statement(table),
            shared: Arc::clone(&shared),
            teller: Teller::new(address, options),
            run: run_name(exporter),
            number: 0,
        };
        Ok(Self {
            rows,
            exporter: exporter.to_owned(),
            batch: Batch::default(),
            began: Instant::now(),
            wait: options.wait,
            shared,
            handed_over: (0, 0),
            spool: spools.take(address).map(Arc::new),
            work: Work::ToBegin(Box::new(sender)),
        })
    }

    pub(super) fn record(&mut self, row: &Row<'_>) {
        let exporter = row.exporter_name(&self.exporter);
        self.rows.write(&mut self.batch.bytes, &exporter, row);
        self.batch.records += 1;
        if self.batch.records >= RECORDS || self.batch.bytes.len() >= BYTES {
            self.hand_over(Instant::now());
        }
    }

    /// Sends a batch that has waited.
    pub(super) fn advance(&mut self) {
        if self.has_earlier() {
            self.begin();
        }
        if self.batch.records == 0 {
            self.began = Instant::now();
        } else if self.began.elapsed() >= AGE && !self.wait {
            self.hand_over(Instant::now());
        }
    }

    /// Hands the batch to the thread. A capture waits for room until `until` at most.
    fn hand_over(&mut self, until: Instant) {
        self.began = Instant::now();
        let batch = std::mem::take(&mut self.batch);
        let records = batch.records;
        if records == 0 {
            return;
        }
        self.begin();
        self.handed_over.0 += 1;
        self.handed_over.1 += records;
        let is_taken = match &self.work {
            Work::Begun(batches, _) if self.wait => batches.send(batch).is_ok(),
            Work::Begun(batches, _) => send_until(batches, batch, until),
            _ => false,
        };
        if !is_taken {
            self.shared.lose(records);
        }
    }

    /// Whether the spool has batches of an earlier run, and nothing sends them yet.
    fn has_earlier(&self) -> bool {
        let earlier = self.spool.as_ref().map_or(0, |spool| spool.earlier());
        earlier > 0 && matches!(self.work, Work::ToBegin(_))
    }

    fn begin(&mut self) {
        let mut sender = match std::mem::replace(&mut self.work, Work::Ended) {
            Work::ToBegin(sender) => sender,
            begun => {
                self.work = begun;
                return;
            }
        };
        let (batches, received) = sync_channel::<Batch>(QUEUE);
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.to_owned()).spawn(work)
        };
        let threads = match &self.spool {
            None => vec![start(
                "clickhouse",
                Box::new(move || {
                    while let Ok(batch) = received.recv() {
                        sender.deliver(&batch);
                    }
                }),
            )],
            Some(spool) => {
                let keeper = sender.keeper();
                let (one, other) = (Arc::clone(spool), Arc::clone(spool));
                let keep = Box::new(move || keeper.keep(&received, &one));
                let send = Box::new(move || sender.send_from(&other));
                vec![start("spool", keep), start("clickhouse", send)]
            }
        };
        // A thread that cannot be started means that its batches count as lost.
        if let Ok(threads) = threads.into_iter().collect() {
            self.work = Work::Begun(batches, threads);
        }
    }

    /// Sends the waiting records, and ends.
    pub(super) fn finish(&mut self) {
        let until = Instant::now() + REST;
        *self.shared.ends() = Some(until);
        self.hand_over(until);
        if self.has_earlier() {
            self.begin();
        }
        if let Work::Begun(batches, threads) = std::mem::replace(&mut self.work, Work::Ended) {
            drop(batches);
            for thread in threads {
                // An insert without an answer does not hold up the end of a capture, nor that of a run whose batches are on
                // the disk.
                let can_give_up = self.spool.is_some() || !self.wait;
                if can_give_up && !ends_by(&thread, until + MARGIN) {
                    self.give_up();
                    continue;
                }
                // A panic would have been reported, and its records are not counted as sent.
                let _ = thread.join();
            }
        }
    }

    /// Counts the records as lost that a hanging insert and the queue still have. Those in a spool stay there.
    fn give_up(&mut self) {
        if self.spool.is_some() {
            return;
        }
        let mut report = self.shared.report().clone();
        report.lost_messages = self.handed_over.0.saturating_sub(report.messages);
        report.lost_flows = self.handed_over.1.saturating_sub(report.flows);
        // The thread may count on; nobody sees it.
        self.shared = Arc::new(Shared {
            report: Mutex::new(report),
            ends: Mutex::new(None),
        });
    }

    pub(super) fn report(&self) -> ExportReport {
        let mut report = self.shared.report().clone();
        if let Some(spool) = &self.spool {
            report.waiting_flows = Some(spool.records());
            report.earlier_flows = Some(spool.earlier());
        }
        report
    }
}

/// Gives a batch to the thread as soon as there is room. Returns false if there was none by this time.
fn send_until(batches: &SyncSender<Batch>, mut batch: Batch, until: Instant) -> bool {
    loop {
        batch = match batches.try_send(batch) {
            Ok(()) => return true,
            Err(TrySendError::Full(batch)) if Instant::now() < until => batch,
            Err(_) => return false,
        };
        thread::sleep(LOOK);
    }
}

/// Waits for the end of a thread, until this time at most. Returns whether it has ended.
fn ends_by(thread: &JoinHandle<()>, until: Instant) -> bool {
    while !thread.is_finished() && Instant::now() < until {
        thread::sleep(LOOK);
    }
    thread.is_finished()
}

/// Returns a name that no other run has: the probe's, and the time of its start.
fn run_name(exporter: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let process = std::process::id();
    format!(
        "{exporter}-{}-{process}",
        since.unwrap_or_default().as_nanos()
    )
}
