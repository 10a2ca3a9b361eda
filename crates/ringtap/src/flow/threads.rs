//! Several meters, each on a separate thread.
//!
//! Packets go in, on the caller's thread or on several. Each thread reads their headers and sorts them by
//! hosts ([`Feeder`]). Batches of observations go to the meters' threads, and records from there to one
//! thread with the outputs. So collectors see one exporter, whose sequence numbers have no gaps. All channels
//! are bounded: if a thread is too slow, those before it wait. A live capture then loses packets in its ring,
//! where they are counted.
//!
//! With several feeders, the packets of a flow may come from any of them. Sums do not depend on their order,
//! but the direction of a flow and the times of a handshake do. For these, a meter first puts the packets of
//! its feeders in order ([`Collator`]).

use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ringtap_flow::{Batch, Collator, Counters, FlowRecord, FlowSink, Meter, MeterOptions};
use ringtap_flow_io::OutputReport;

use super::error::FlowError;
use super::feeder::{Feeder, Routes, Sent};
use super::outlets::Outlets;
use super::probe::prepare;
use crate::setup::{lock, spawn};

/// The maximum number of each feeder's batches that wait for a meter, and the minimum for all together.
const BATCHES_OF_ONE: usize = 2;
const BATCHES: usize = 8;
/// The number of batches that may come back before a feeder takes them.
const SPARE_BATCHES: usize = 256;
/// The number of record batches that may wait for the outputs, and the number of records in each.
const RECORD_BATCHES: usize = 64;
const RECORDS: usize = 256;

/// The threads of the meters, and that of the outputs.
pub(crate) struct Threads {
    /// The feeders that no other thread has.
    feeders: Vec<Feeder>,
    /// The counters of each feeder.
    fed: Vec<Arc<Mutex<Counters>>>,
    lanes: Vec<Lane>,
    outputs: Writer,
    /// The latest time that the outputs got.
    told_ns: u64,
    memory: usize,
}

/// A meter's thread, as the packet thread sees it. It starts with the first packets. Before that, the program may
/// still give up privileges, which applies only to threads that do not exist yet.
struct Lane {
    /// The thread's work, until it starts.
    work: Option<Box<Work>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Mutex<Counters>>,
}

/// The initial state of a meter's thread.
struct Work {
    meter: Meter,
    batches: Receiver<Sent>,
    /// The channels on which each feeder gets its batches back.
    backs: Vec<SyncSender<Batch>>,
    /// Puts the packets of several feeders in order, if the order matters.
    collator: Option<Collator>,
}

enum Writer {
    ToBegin(Box<Outlets>),
    Begun {
        orders: SyncSender<Order>,
        thread: JoinHandle<Done>,
    },
    /// The final counters of the outputs.
    Ended(OutputReport),
}

/// An order to the outputs' thread.
enum Order {
    Records {
        lane: usize,
        records: Vec<FlowRecord>,
    },
    /// The time has advanced.
    Advance {
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
    /// Returns this number of meters, which share the flows of the options, for this number of feeders.
    pub(crate) fn new(
        options: &MeterOptions,
        meters: u16,
        readers: usize,
        outlets: Outlets,
    ) -> Result<Self, FlowError> {
        let share = options
            .clone()
            .flows(options.flows.div_ceil(meters.into()))
            // Packets are sampled before they reach a meter.
            .sampling(None);
        let (backs, mut returned): (Vec<_>, Vec<_>) = (0..readers)
            .map(|_| mpsc::sync_channel(SPARE_BATCHES))
            .unzip();
        let in_order =
            readers > 1 && (options.both_ways || options.measure_tcp || options.inspect.is_some());
        let (mut memory, mut to_meters) = (0, Vec::new());
        let lane = |_| {
            let meter = Meter::new(&share)?;
            prepare(&meter);
            memory += meter.memory();
            let (to_meter, batches) = mpsc::sync_channel(BATCHES.max(readers * BATCHES_OF_ONE));
            to_meters.push(to_meter);
            Ok(Lane {
                work: Some(Box::new(Work {
                    meter,
                    batches,
                    backs: backs.clone(),
                    collator: in_order.then(|| Collator::new(readers)),
                })),
                thread: None,
                counters: Arc::default(),
            })
        };
        let lanes: Result<_, FlowError> = (0..meters).map(lane).collect();
        let fed: Vec<Arc<Mutex<Counters>>> = (0..readers).map(|_| Arc::default()).collect();
        let feeder = |(number, back)| {
            let meters = to_meters.clone();
            let counters: &Arc<_> = &fed[number];
            let routes = Routes { meters, back };
            Feeder::new((number, readers), options, routes, Arc::clone(counters))
        };
        let feeders: Result<_, FlowError> = returned.drain(..).enumerate().map(feeder).collect();
        Ok(Self {
            feeders: feeders?,
            fed,
            lanes: lanes?,
            outputs: Writer::ToBegin(Box::new(outlets)),
            told_ns: 0,
            memory,
        })
    }

    /// Returns the feeders, for separate threads. They must be dropped before [`Threads::finish`].
    pub(crate) fn take_feeders(&mut self) -> Vec<Feeder> {
        std::mem::take(&mut self.feeders)
    }

    /// Returns the only feeder.
    pub(crate) fn feeder(&mut self) -> Option<&mut Feeder> {
        self.feeders.first_mut()
    }

    /// Returns the number of bytes that are reserved for flows.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Starts the threads, unless they are running.
    pub(crate) fn start(&mut self) -> Result<(), FlowError> {
        let Writer::ToBegin(outlets) = &mut self.outputs else {
            return Ok(());
        };
        outlets.outputs.begin()?;
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
            let thread = spawn("records", move || write(*outlets, &received, &spares))?;
            self.outputs = Writer::Begun { orders, thread };
        }
        Ok(())
    }

    /// Lets the outputs send waiting records, once the only feeder has given its packets to the meters.
    pub(crate) fn settle_if_due(&mut self) {
        if let Some(feeder) = self.feeder()
            && feeder.settle_if_due()
        {
            let now_ns = feeder.now_ns();
            self.advance_outputs(now_ns);
        }
    }

    /// Advances the time when no packets come.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if let Some(feeder) = self.feeder() {
            feeder.advance(now_ns);
        }
        self.advance_outputs(now_ns);
    }

    /// Lets the outputs send the records that have waited until this time.
    pub(crate) fn advance_outputs(&mut self, now_ns: u64) {
        let order = self.advance_order(now_ns);
        self.order(order);
    }

    /// The same, if it can be repeated: it is skipped while the outputs are too busy to take it.
    pub(crate) fn try_advance_outputs(&mut self, now_ns: u64) {
        let order = self.advance_order(now_ns);
        if let Writer::Begun { orders, .. } = &self.outputs {
            let _ = orders.try_send(order);
        }
    }

    fn advance_order(&mut self, now_ns: u64) -> Order {
        let counters = self.counters();
        self.told_ns = self.told_ns.max(now_ns);
        Order::Advance {
            now_ns: self.told_ns,
            flows: counters.flows,
            ignored: counters.not_ip + counters.malformed,
        }
    }

    /// Lets the outputs print the tables.
    pub(crate) fn print_tables(&self) {
        self.order(Order::PrintTables);
    }

    /// Sends an order. If nobody takes it, the outputs have failed; the result of [`Threads::finish`] has the
    /// reason.
    fn order(&self, order: Order) {
        if let Writer::Begun { orders, .. } = &self.outputs {
            let _ = orders.send(order);
        }
    }

    /// Returns the counters of all threads.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        let lanes = self.lanes.iter().map(|lane| &lane.counters);
        for counters in self.fed.iter().chain(lanes) {
            sum += *lock(counters);
        }
        sum
    }

    /// Returns the number of packets from each feeder.
    pub(crate) fn readers(&self) -> Vec<u64> {
        self.fed.iter().map(|fed| lock(fed).packets).collect()
    }

    /// Returns the counters of the outputs so far.
    pub(crate) fn report(&self) -> OutputReport {
        if let Writer::Ended(report) = &self.outputs {
            return report.clone();
        }
        let (answer, answered) = mpsc::sync_channel(1);
        self.order(Order::Report(answer));
        answered.recv().unwrap_or_default()
    }

    /// Returns whether the outputs have failed, so that the run should end.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&self.outputs, Writer::Begun { thread, .. } if thread.is_finished())
    }

    /// Ends all flows and the threads, and prints the last tables.
    pub(crate) fn finish(&mut self) -> Result<(), FlowError> {
        self.start()?;
        let mut now_ns = 0;
        for mut feeder in self.feeders.drain(..) {
            feeder.settle();
            now_ns = now_ns.max(feeder.now_ns());
        }
        for lane in &mut self.lanes {
            lane.finish();
        }
        self.advance_outputs(now_ns);
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

impl Lane {
    fn start(&mut self, number: usize, mut carrier: Carrier) -> Result<(), FlowError> {
        if let Some(work) = self.work.take() {
            let counters = Arc::clone(&self.counters);
            let work = move || work.run(&mut carrier, &counters);
            self.thread = Some(spawn(format!("meter {number}"), work)?);
        }
        Ok(())
    }

    /// Waits for the thread, which ends its flows once no feeder is left.
    fn finish(&mut self) {
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            resume_unwind(panic);
        }
    }
}

impl Work {
    /// Runs a meter's thread, until no feeder is left.
    fn run(mut self, carrier: &mut Carrier, counters: &Mutex<Counters>) {
        let publish = |meter: &Meter| *lock(counters) = meter.counters();
        while let Ok(sent) = self.batches.recv() {
            self.take(sent, carrier);
            carrier.hand_over();
            publish(&self.meter);
        }
        if let Some(collator) = &mut self.collator {
            collator.finish(&mut self.meter, carrier);
        }
        self.meter.flush(carrier);
        carrier.hand_over();
        publish(&self.meter);
    }

    fn take(&mut self, Sent { reader, mut batch }: Sent, carrier: &mut Carrier) {
        let meter = &mut self.meter;
        let back = |reader: usize, batch: Batch| {
            if let Some(back) = self.backs.get(reader) {
                // Without room, the batch is dropped.
                let _ = back.try_send(batch);
            }
        };
        match &mut self.collator {
            Some(collator) => {
                if let Some(empty) = collator.put(reader, batch) {
                    back(reader, empty);
                }
                collator.take(meter, carrier, back);
            }
            None => {
                meter.take(&batch, carrier);
                batch.clear();
                back(reader, batch);
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
        // If nobody takes them, the outputs have failed.
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

/// Runs the outputs' thread, until nobody gives orders or an output has failed.
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
            Order::Advance {
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
