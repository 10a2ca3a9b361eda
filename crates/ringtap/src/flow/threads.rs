//! Several meters, each with a thread of its own.
//!
//! Data in: packets, on the caller's thread, which reads their headers and sorts them by hosts
//! ([`Spreader`]). Batches of what was read go to the meters' threads, records from those to one
//! thread that has the outputs: so collectors see one exporter, whose sequence numbers have no gaps.
//! All channels are bounded: where a thread can't follow, those before it wait, and a live capture
//! loses packets in its ring, where they are counted. Batches go back to be used again.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ringtap_flow::{Batch, Counters, FlowRecord, FlowSink, Meter, MeterOptions, Packet, Spreader};

use super::error::{FlowError, setup};
use super::outlets::Outlets;
use super::outputs::OutputReport;
use super::probe::prepare;

/// Batches that may wait for a meter.
const BATCHES: usize = 8;
/// Batches of records that may wait for the outputs, and records of each.
const RECORD_BATCHES: usize = 64;
const RECORDS: usize = 256;
/// Packets' time after which meters are given what waits for them, in nanoseconds.
const WAIT_NS: u64 = 20_000_000;

/// The meters' threads, and that of the outputs.
pub(crate) struct Threads {
    spreader: Spreader,
    lanes: Vec<Lane>,
    outputs: Writer,
    /// When meters were given all that waited for them.
    settled_ns: u64,
    memory: usize,
}

/// A meter's thread, as it is seen from that of the packets.
struct Lane {
    meter: Worker,
    counters: Arc<Mutex<Counters>>,
}

/// Threads begin with the first packets: before, the program may still have to give up privileges,
/// which holds for threads that are not there yet.
enum Worker {
    ToBegin(Box<Meter>),
    Begun {
        batches: SyncSender<Batch>,
        /// Batches that were metered.
        back: Receiver<Batch>,
        thread: JoinHandle<()>,
    },
    Ended,
}

enum Writer {
    ToBegin(Box<Outlets>),
    Begun {
        orders: SyncSender<Order>,
        thread: JoinHandle<Done>,
    },
    /// What is left of the outputs: what they did.
    Ended(OutputReport),
}

/// What the thread of the outputs is to do.
enum Order {
    Records {
        lane: usize,
        records: Vec<FlowRecord>,
    },
    /// Time has gone on to there.
    GoOn {
        now_ns: u64,
        flows: u64,
        ignored: u64,
    },
    PrintTables,
    Report(SyncSender<OutputReport>),
}

struct Done {
    report: OutputReport,
    result: Result<(), FlowError>,
}

impl Threads {
    /// So many meters, which have all flows of the options together.
    pub(crate) fn new(
        options: &MeterOptions,
        meters: u16,
        outlets: Outlets,
    ) -> Result<Self, FlowError> {
        let spreader = Spreader::new(options, meters.into())?;
        let share = MeterOptions {
            flows: options.flows.div_ceil(meters.into()),
            // Chosen before they come to a meter.
            sampling: None,
            ..options.clone()
        };
        let mut memory = 0;
        let lane = |_| {
            let meter = Meter::new(&share)?;
            prepare(&meter);
            memory += meter.memory();
            Ok(Lane {
                meter: Worker::ToBegin(Box::new(meter)),
                counters: Arc::default(),
            })
        };
        let lanes: Result<_, FlowError> = (0..meters).map(lane).collect();
        Ok(Self {
            spreader,
            lanes: lanes?,
            outputs: Writer::ToBegin(Box::new(outlets)),
            settled_ns: 0,
            memory,
        })
    }

    /// Bytes of memory that are reserved for flows.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Starts the threads, unless they run.
    pub(crate) fn start(&mut self) -> Result<(), FlowError> {
        let Writer::ToBegin(_) = &self.outputs else {
            return Ok(());
        };
        let (orders, received) = mpsc::sync_channel(RECORD_BATCHES);
        let mut spares = Vec::with_capacity(self.lanes.len());
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let (to_spare, spare) = mpsc::sync_channel(RECORD_BATCHES);
            spares.push(to_spare);
            let carrier = Carrier {
                lane: number,
                records: Vec::with_capacity(RECORDS),
                orders: orders.clone(),
                spare,
            };
            lane.start(number, carrier)?;
        }
        let before = std::mem::replace(&mut self.outputs, Writer::Ended(OutputReport::default()));
        if let Writer::ToBegin(outlets) = before {
            let thread = thread::Builder::new().name("records".to_owned());
            let thread = thread.spawn(move || write(*outlets, &received, &spares));
            let thread = thread.map_err(|source| setup("start a thread", source))?;
            self.outputs = Writer::Begun { orders, thread };
        }
        Ok(())
    }

    /// Takes a packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: &Packet<'_>) {
        let Self {
            spreader, lanes, ..
        } = self;
        spreader.push(packet, |lane, batch| give(lanes, lane, batch));
    }

    /// Lets time go on to that of the last packet, and meters have what has waited.
    pub(crate) fn go_on(&mut self) {
        if self.spreader.now_ns().abs_diff(self.settled_ns) > WAIT_NS {
            self.settle();
        }
    }

    /// Lets time go on where no packets come.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.spreader.advance(now_ns);
        self.settle();
    }

    fn settle(&mut self) {
        self.settled_ns = self.spreader.now_ns();
        let Self {
            spreader, lanes, ..
        } = self;
        spreader.settle(|lane, batch| give(lanes, lane, batch));
        let counters = self.counters();
        self.order(Order::GoOn {
            now_ns: self.settled_ns,
            flows: counters.flows,
            ignored: counters.not_ip + counters.malformed,
        });
    }

    /// Has the tables printed.
    pub(crate) fn print_tables(&self) {
        self.order(Order::PrintTables);
    }

    /// An order that nobody takes any more has failed; what [`Threads::finish`] returns says why.
    fn order(&self, order: Order) {
        if let Writer::Begun { orders, .. } = &self.outputs {
            let _ = orders.send(order);
        }
    }

    /// What all threads have counted.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = self.spreader.counters();
        for lane in &self.lanes {
            sum += *lane.counters.lock().unwrap_or_else(PoisonError::into_inner);
        }
        sum
    }

    /// What the outputs did so far.
    pub(crate) fn report(&self) -> OutputReport {
        if let Writer::Ended(report) = &self.outputs {
            return report.clone();
        }
        let (answer, answered) = mpsc::sync_channel(1);
        self.order(Order::Report(answer));
        answered.recv().unwrap_or_default()
    }

    /// Whether the outputs have failed, so that there is no sense in going on.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&self.outputs, Writer::Begun { thread, .. } if thread.is_finished())
    }

    /// Ends all flows, and the threads; prints the last tables.
    pub(crate) fn finish(&mut self) -> Result<(), FlowError> {
        self.start()?;
        self.settle();
        for lane in &mut self.lanes {
            lane.finish();
        }
        self.settle();
        let ended = Writer::Ended(OutputReport::default());
        let Writer::Begun { orders, thread } = std::mem::replace(&mut self.outputs, ended) else {
            return Ok(());
        };
        drop(orders);
        let Done { report, result } = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.outputs = Writer::Ended(report);
        result
    }
}

/// Gives a batch to a meter's thread, for an empty one.
fn give(lanes: &mut [Lane], lane: usize, batch: &mut Batch) {
    if let Some(Lane {
        meter: Worker::Begun { batches, back, .. },
        ..
    }) = lanes.get_mut(lane)
    {
        let empty = back.try_recv().unwrap_or_default();
        // Whoever does not take it has panicked, which the end will tell.
        let _ = batches.send(std::mem::replace(batch, empty));
    }
}

impl Lane {
    fn start(&mut self, number: usize, mut carrier: Carrier) -> Result<(), FlowError> {
        let before = std::mem::replace(&mut self.meter, Worker::Ended);
        let Worker::ToBegin(mut meter) = before else {
            self.meter = before;
            return Ok(());
        };
        let (batches, received) = mpsc::sync_channel::<Batch>(BATCHES);
        let (to_back, back) = mpsc::sync_channel(BATCHES + 2);
        let counters = Arc::clone(&self.counters);
        let work = move || {
            let publish = |meter: &Meter| {
                *counters.lock().unwrap_or_else(PoisonError::into_inner) = meter.counters();
            };
            for mut batch in received {
                meter.take(&batch, &mut carrier);
                carrier.hand_over();
                publish(&meter);
                batch.clear();
                // Without room it is one too many.
                let _ = to_back.try_send(batch);
            }
            meter.flush(&mut carrier);
            carrier.hand_over();
            publish(&meter);
        };
        let thread = thread::Builder::new().name(format!("meter {number}"));
        let thread = thread.spawn(work);
        let thread = thread.map_err(|source| setup("start a thread", source))?;
        self.meter = Worker::Begun {
            batches,
            back,
            thread,
        };
        Ok(())
    }

    /// Ends the thread, and with that its flows.
    fn finish(&mut self) {
        if let Worker::Begun {
            batches, thread, ..
        } = std::mem::replace(&mut self.meter, Worker::Ended)
        {
            drop(batches);
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    }
}

/// Carries the records of a meter to the outputs.
struct Carrier {
    lane: usize,
    records: Vec<FlowRecord>,
    orders: SyncSender<Order>,
    /// Vectors whose records were written.
    spare: Receiver<Vec<FlowRecord>>,
}

impl Carrier {
    fn hand_over(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let empty = self.spare.try_recv();
        let empty = empty.unwrap_or_else(|_| Vec::with_capacity(RECORDS));
        let records = std::mem::replace(&mut self.records, empty);
        let lane = self.lane;
        // Where nobody takes them, the outputs have failed.
        let _ = self.orders.send(Order::Records { lane, records });
    }
}

impl FlowSink for Carrier {
    fn record(&mut self, record: &FlowRecord) {
        self.records.push(record.clone());
        if self.records.len() == RECORDS {
            self.hand_over();
        }
    }
}

/// The life of the thread of the outputs: until nobody gives orders any more, or one has failed.
fn write(
    mut outlets: Outlets,
    orders: &Receiver<Order>,
    spares: &[SyncSender<Vec<FlowRecord>>],
) -> Done {
    let worked = work_off(&mut outlets, orders, spares);
    let finished = outlets.outputs.finish().map_err(FlowError::from);
    let printed = outlets.print_tables();
    Done {
        report: outlets.outputs.report(),
        result: worked.and(finished).and(printed),
    }
}

fn work_off(
    outlets: &mut Outlets,
    orders: &Receiver<Order>,
    spares: &[SyncSender<Vec<FlowRecord>>],
) -> Result<(), FlowError> {
    for order in orders {
        match order {
            Order::Records { lane, mut records } => {
                records.iter().for_each(|record| outlets.record(record));
                records.clear();
                if let Some(spare) = spares.get(lane) {
                    let _ = spare.try_send(records);
                }
            }
            Order::GoOn {
                now_ns,
                flows,
                ignored,
            } => {
                outlets.outputs.set_statistics(flows, ignored);
                outlets.outputs.advance(now_ns)?;
            }
            Order::PrintTables => outlets.print_tables()?,
            Order::Report(answer) => {
                let _ = answer.send(outlets.outputs.report());
            }
        }
    }
    Ok(())
}
