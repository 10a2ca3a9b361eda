//! The threads that send batches, directly or by way of the spool.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::server::{Answer, Server};
use super::spool::Next;
use super::{Batch, Refused, Shared, Spool, Teller};

/// The pauses between attempts: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// The sending side.
pub(super) struct Sender {
    pub(super) server: Server,
    /// The statement of new batches.
    pub(super) statement: String,
    pub(super) shared: Arc<Shared>,
    pub(super) teller: Teller,
    /// The name of this run, with which tokens begin.
    pub(super) run: String,
    /// The number of the last batch.
    pub(super) number: u64,
}

/// The side that puts batches into the spool.
pub(super) struct Keeper {
    statement: String,
    shared: Arc<Shared>,
    teller: Teller,
    run: String,
}

/// The end of the attempts to send a batch.
#[derive(PartialEq, Eq)]
enum Outcome {
    Taken,
    /// The server will never take it.
    Refused,
    /// The run has ended.
    Open,
}

impl Sender {
    /// Returns the side that fills the spool, with the same names.
    pub(super) fn keeper(&self) -> Keeper {
        Keeper {
            statement: self.statement.clone(),
            shared: Arc::clone(&self.shared),
            teller: self.teller.again(),
            run: self.run.clone(),
        }
    }

    /// Sends a batch until the server has taken or refused it, or the run has ended: then it is lost.
    pub(super) fn deliver(&mut self, batch: &Batch) {
        self.number += 1;
        let token = token(&self.run, self.number);
        let statement = self.statement.clone();
        let content = (&*statement, &*batch.bytes);
        let outcome = self.attempt(content, &token, batch.records, false);
        if outcome != Outcome::Taken {
            self.shared.lose(batch.records);
        }
    }

    /// Sends what is in the spool, and what comes into it, until the run ends. The rest stays for the next run.
    pub(super) fn send_from(&mut self, spool: &Spool) {
        if spool.cut() > 0 {
            let (path, cut) = (spool.path().display(), spool.cut());
            self.teller.say(&format!(
                "{path}: a crash had cut the last batch: {cut} bytes were removed"
            ));
        }
        // A run with much that waits ends in time, too.
        while !self.has_ended() {
            let (records, len) = match spool.first(FIRST_PAUSE) {
                Next::Empty => continue,
                Next::Ended => return,
                Next::Failed(error) => {
                    self.teller.failed(&error, ": the spool; it is tried again");
                    if !self.rest(LAST_PAUSE) {
                        return;
                    }
                    continue;
                }
                Next::Batch(waiting) => {
                    let content = (&*waiting.statement, &*waiting.rows);
                    match self.attempt(content, &waiting.token, waiting.records, true) {
                        Outcome::Open => return,
                        Outcome::Taken => {}
                        Outcome::Refused => self.shared.lose(waiting.records),
                    }
                    (waiting.records, waiting.len)
                }
                Next::Damaged {
                    error,
                    records,
                    len,
                } => {
                    self.told(spool, &error);
                    self.shared.lose(records);
                    (records, len)
                }
            };
            match spool.remove_first(records, len) {
                Ok(0) => {}
                Ok(lost) => self.shared.lose(lost),
                Err(error) => self.told(spool, &error),
            }
        }
    }

    /// Returns whether the run has ended, and the server has had its time.
    fn has_ended(&self) -> bool {
        self.shared
            .ends()
            .is_some_and(|ends| Instant::now() >= ends)
    }

    fn told(&self, spool: &Spool, error: &std::io::Error) {
        let path = spool.path().display();
        self.teller
            .say(&format!("{path}: {error}; lost records are counted"));
    }

    /// Sends a batch until there is an outcome. A batch that `is_kept` on the disk waits until what the server refuses is
    /// mended, such as a missing table or a wrong password.
    fn attempt(
        &mut self,
        (statement, rows): (&str, &[u8]),
        token: &str,
        records: u64,
        is_kept: bool,
    ) -> Outcome {
        let mut pause = FIRST_PAUSE;
        loop {
            let until = *self.shared.ends();
            match self.server.insert(statement, rows, token, until) {
                Answer::Taken => {
                    self.teller.connected();
                    let mut report = self.shared.report();
                    report.messages += 1;
                    report.flows += records;
                    report.bytes += rows.len() as u64;
                    return Outcome::Taken;
                }
                Answer::WithoutTokens => {
                    self.teller.say(
                        "the server does not know insert_deduplication_token; a batch that is sent again may be there \
                         twice",
                    );
                    continue;
                }
                Answer::Refused { error, is_of_batch } if is_of_batch || !is_kept => {
                    self.teller.failed(&error, "");
                    return Outcome::Refused;
                }
                Answer::Refused { error, .. } | Answer::Away(error) if is_kept => {
                    self.teller.tell(&error, "records wait in the spool");
                }
                Answer::Refused { error, .. } | Answer::Away(error) => {
                    self.teller.failed(&error, "; it is tried again");
                }
            }
            if !self.rest(pause) {
                return Outcome::Open;
            }
            pause = (2 * pause).min(LAST_PAUSE);
        }
    }

    /// Waits. Returns false if the run has ended, and the server has had its time.
    fn rest(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            if self.has_ended() {
                return false;
            }
            if self.shared.ends().is_some() {
                // The server may be back sooner than the pause ends.
                thread::sleep(FIRST_PAUSE);
                return true;
            }
            thread::sleep(FIRST_PAUSE.min(end.saturating_duration_since(Instant::now())));
        }
        true
    }
}

impl Keeper {
    /// Puts batches into the spool until no more come.
    pub(super) fn keep(mut self, batches: &Receiver<Batch>, spool: &Spool) {
        let mut number = 0;
        while let Ok(batch) = batches.recv() {
            number += 1;
            match spool.add(&batch, &token(&self.run, number), &self.statement) {
                Ok(()) => continue,
                Err(Refused::Full) => {
                    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                    self.teller
                        .failed(&full, ": the spool has its largest size");
                }
                Err(Refused::Failed(error)) => self.teller.failed(&error, ": the spool"),
            }
            self.shared.lose(batch.records);
        }
        spool.close();
    }
}

/// Returns the token of a batch of this run.
fn token(run: &str, number: u64) -> String {
    format!("{run}-{number}")
}
