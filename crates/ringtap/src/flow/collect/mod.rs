//! `ringtap flow --collect`: records of other exporters go to the same outputs as metered ones. [`Collector`]
//! has the socket and the decoder. This module has the loop, the reports and the end.

mod summary;

use std::time::{Duration, Instant};

use ringtap_flow_io::{Collector, ListenAddress};

use self::summary::Summary;
use super::FlowError;
use super::folders::Folders;
use super::outlets::Outlets;
use super::probe::now_ns;
use crate::cli::FlowArgs;
use crate::notice::notice;
use crate::rights::{Needs, Rights};
use crate::signals::Requests;

/// The interval at which signals and the clock are checked while nothing comes.
const TICK: Duration = Duration::from_millis(200);
/// The maximum number of exporters in a report.
const LISTED: usize = 100;
/// How long datagrams are still taken after the end was requested, since exporters continue to send.
const REST: Duration = Duration::from_secs(1);

/// Collects until the run is ended.
pub(crate) fn run(
    args: &FlowArgs,
    address: &ListenAddress,
    rights: &Rights,
) -> Result<(), FlowError> {
    let enterprise = args.records.enterprise.unwrap_or_default();
    let collector = Collector::bind(address, &args.allow, TICK)?.with_enterprise(enterprise);
    let needs = Needs {
        network: !args.records.export.is_empty(),
        ..Needs::default()
    };
    let folders = Folders::open(args)?;
    rights.relinquish(&[], needs)?;
    let mut outlets = Outlets::open(args, folders)?;
    let requests = Requests::default();
    requests.watch(Vec::new())?;
    outlets.outputs.begin()?;
    notice(format_args!("collecting on udp:{}", collector.local_addr()));
    let interval = args.report.interval;
    let mut collection = Collection {
        collector,
        outlets,
        reports: interval.map(|interval| (interval, Instant::now())),
        started: Instant::now(),
        json: args.report.json_stats,
    };
    let result = collection.receive(&requests);
    let tables = collection.outlets.print_tables();
    let finished = collection.outlets.outputs.finish();
    collection.summarise();
    result.and(tables).and(finished.map_err(FlowError::from))
}

struct Collection {
    collector: Collector,
    outlets: Outlets,
    reports: Option<(Duration, Instant)>,
    started: Instant,
    json: bool,
}

impl Collection {
    fn receive(&mut self, requests: &Requests) -> Result<(), FlowError> {
        let mut last_tick = Instant::now();
        while !requests.stop() {
            let outlets = &mut self.outlets;
            self.collector.receive(&mut |record, origin| {
                outlets.take(record, Some(origin));
            })?;
            outlets.outputs.log();
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                self.tick()?;
                if requests.take_report() {
                    self.summarise();
                }
            }
        }
        // Datagrams that came before the end was requested are taken too.
        let outlets = &mut self.outlets;
        self.collector.drain(REST, &mut |record, origin| {
            outlets.take(record, Some(origin));
        });
        Ok(())
    }

    /// Reports what came and what was lost so far.
    fn summarise(&self) {
        let summary = Summary {
            seconds: self.started.elapsed().as_secs_f64(),
            collected: self.collector.report(LISTED),
            outputs: self.outlets.outputs.report(),
        };
        crate::notice::summary(&summary, summary.text(self.json));
    }

    fn tick(&mut self) -> Result<(), FlowError> {
        self.outlets.outputs.advance(now_ns())?;
        if let Some((interval, last)) = &mut self.reports
            && last.elapsed() >= *interval
        {
            *last = Instant::now();
            self.outlets.print_tables()?;
        }
        Ok(())
    }
}
