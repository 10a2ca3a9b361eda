//! Inserts records into a table of ClickHouse, over HTTP.
//!
//! The metering thread writes rows into a batch. A thread sends each batch, and sends it again until the server has
//! taken it: with the same token (`insert_deduplication_token`), by which the server recognises a batch that it has.
//! So a record is in the table once, unless it is counted as lost: because the queue of batches was full, because the
//! server refused the batch, or because the server was away when the run ended.
//!
//! Source: <https://clickhouse.com/docs/interfaces/http>.

mod rows;
mod server;

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_flow::schema::Row;

use super::Teller;
use crate::{CollectorAddress, ExportReport, OutputError, OutputOptions};
use rows::Rows;
use server::{Answer, Server};

/// A batch is sent when it has this many records or bytes, or is this old.
const RECORDS: u64 = 65_536;
const BYTES: usize = 16 << 20;
const AGE: Duration = Duration::from_secs(2);
/// The number of batches that wait while the server is away, in a live run: 64 MiB at most beside those that are written
/// and sent.
const QUEUE: usize = 4;
/// The pauses between attempts: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// How long the end of a run waits for a server that is away.
const REST: Duration = Duration::from_secs(5);

/// The metering thread's side.
pub(super) struct ClickHouse {
    rows: Rows,
    /// The name of records that were metered here.
    exporter: String,
    batch: Batch,
    began: Instant,
    wait: bool,
    shared: Arc<Shared>,
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
    Begun(SyncSender<Batch>, JoinHandle<()>),
    Ended,
}

struct Shared {
    report: Mutex<ExportReport>,
    /// When the run ends, the server has until this time.
    ends: Mutex<Option<Instant>>,
}

impl Shared {
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
        exporter: &str,
    ) -> Result<Self, OutputError> {
        let rows = Rows::new(options.export.fields);
        let server = Server::new(address, &rows)?;
        let shared = Arc::new(Shared {
            report: Mutex::new(ExportReport {
                collector: address.to_string(),
                ..ExportReport::default()
            }),
            ends: Mutex::new(None),
        });
        let sender = Sender {
            server,
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
            work: Work::ToBegin(Box::new(sender)),
        })
    }

    pub(super) fn record(&mut self, row: &Row<'_>) {
        match row.origin {
            Some(origin) => {
                let name = origin.exporter.ip().to_canonical().to_string();
                self.rows.write(&mut self.batch.bytes, &name, row);
            }
            None => self.rows.write(&mut self.batch.bytes, &self.exporter, row),
        }
        self.batch.records += 1;
        if self.batch.records >= RECORDS || self.batch.bytes.len() >= BYTES {
            self.hand_over();
        }
    }

    /// Sends a batch that has waited.
    pub(super) fn advance(&mut self) {
        if self.batch.records == 0 {
            self.began = Instant::now();
        } else if self.began.elapsed() >= AGE && !self.wait {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.began = Instant::now();
        let batch = std::mem::take(&mut self.batch);
        if batch.records == 0 {
            return;
        }
        self.begin();
        let Work::Begun(batches, _) = &self.work else {
            self.shared.report().lost_flows += batch.records;
            return;
        };
        let refused = match self.wait {
            true => batches.send(batch).err().map(|error| error.0),
            false => match batches.try_send(batch) {
                Ok(()) => None,
                Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => Some(batch),
            },
        };
        if let Some(batch) = refused {
            self.shared.report().lost_flows += batch.records;
        }
    }

    fn begin(&mut self) {
        match std::mem::replace(&mut self.work, Work::Ended) {
            Work::ToBegin(mut sender) => {
                let (batches, received) = sync_channel::<Batch>(QUEUE);
                let thread = thread::Builder::new().name("clickhouse".to_owned());
                let started = thread.spawn(move || {
                    while let Ok(batch) = received.recv() {
                        sender.deliver(&batch);
                    }
                });
                if let Ok(thread) = started {
                    self.work = Work::Begun(batches, thread);
                }
            }
            begun => self.work = begun,
        }
    }

    /// Sends the waiting records, and ends.
    pub(super) fn finish(&mut self) {
        *self.shared.ends() = Some(Instant::now() + REST);
        self.wait = true;
        self.hand_over();
        if let Work::Begun(batches, thread) = std::mem::replace(&mut self.work, Work::Ended) {
            drop(batches);
            // A panic would have been reported, and its records are not counted as sent.
            let _ = thread.join();
        }
    }

    pub(super) fn report(&self) -> ExportReport {
        self.shared.report().clone()
    }
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

/// The sending thread's side.
struct Sender {
    server: Server,
    shared: Arc<Shared>,
    teller: Teller,
    run: String,
    number: u64,
}

impl Sender {
    /// Sends a batch until the server has taken or refused it, or the run has ended.
    fn deliver(&mut self, batch: &Batch) {
        self.number += 1;
        let token = format!("{}-{}", self.run, self.number);
        let mut pause = FIRST_PAUSE;
        loop {
            let until = *self.shared.ends();
            match self.server.insert(&batch.bytes, &token, until) {
                Answer::Taken => {
                    self.teller.connected();
                    let mut report = self.shared.report();
                    report.messages += 1;
                    report.flows += batch.records;
                    report.bytes += batch.bytes.len() as u64;
                    return;
                }
                Answer::WithoutTokens => {
                    self.teller.say(
                        "the server does not know insert_deduplication_token; a batch that is sent again may be there \
                         twice",
                    );
                    continue;
                }
                Answer::Refused(error) => {
                    self.teller.failed(&error, "");
                    self.lose(batch);
                    return;
                }
                Answer::Away(error) => self.teller.failed(&error, "; it is tried again"),
            }
            if !self.rest(pause) {
                self.lose(batch);
                return;
            }
            pause = (2 * pause).min(LAST_PAUSE);
        }
    }

    fn lose(&self, batch: &Batch) {
        let mut report = self.shared.report();
        report.lost_messages += 1;
        report.lost_flows += batch.records;
    }

    /// Waits. Returns false if the run has ended, and the server has had its time.
    fn rest(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            if let Some(ends) = *self.shared.ends() {
                if Instant::now() >= ends {
                    return false;
                }
                // The server may be back sooner than the pause ends.
                thread::sleep(FIRST_PAUSE);
                return true;
            }
            thread::sleep(FIRST_PAUSE.min(end.saturating_duration_since(Instant::now())));
        }
        true
    }
}
