//! A meter and its outputs, fed with blocks of packets.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use ringtap_capture::{Block, Interface, Packet, Timestamp};
use ringtap_flow::{Counters, LinkLayer, Meter, Packet as MeteredPacket};

use super::error::FlowError;
use super::outlets::Outlets;
use super::plan;
use super::summary::Summary;
use super::talkers::Talkers;
use crate::cli::FlowArgs;
use crate::notice::raw;

/// What packets of one interface have in common.
#[derive(Clone, Copy)]
struct Place {
    link: LinkLayer,
    input: u32,
}

/// A meter, what it knows of the source's interfaces, and the outputs.
pub(crate) struct Probe {
    meter: Meter,
    outlets: Outlets,
    places: Vec<Place>,
    /// The number in the host of the interface that is captured on.
    device: Option<u32>,
    /// Interfaces of sources before the present one.
    before: u32,
    reports: Option<(Duration, Instant)>,
    json: bool,
}

impl Probe {
    pub(crate) fn new(args: &FlowArgs) -> Result<Self, FlowError> {
        let report = &args.report;
        Ok(Self {
            meter: Meter::new(&plan::meter_options(args))?,
            outlets: Outlets {
                talkers: (report.top > 0).then(|| Talkers::new(report.top)),
            },
            places: Vec::new(),
            device: None,
            before: 0,
            reports: report.interval.map(|interval| (interval, Instant::now())),
            json: report.json_stats,
        })
    }

    /// The captured device's number in the host.
    pub(crate) fn on_device(&mut self, index: Option<u32>) {
        self.device = index;
    }

    /// Another source begins.
    pub(crate) fn next_source(&mut self) {
        self.before += u32::try_from(self.places.len()).unwrap_or(0);
        self.places.clear();
    }

    /// Takes notice of the source's interfaces.
    pub(crate) fn interfaces(&mut self, interfaces: &[Interface]) {
        let (known, before, device) = (self.places.len(), self.before, self.device);
        let new = interfaces.iter().enumerate().skip(known);
        self.places.extend(new.map(|(number, interface)| Place {
            link: LinkLayer::of_link_type(interface.link_type.0),
            input: device.unwrap_or(before + u32::try_from(number + 1).unwrap_or(0)),
        }));
    }

    /// Meters a block of packets.
    pub(crate) fn block(&mut self, block: &Block<'_>) -> Result<(), FlowError> {
        let (meter, outlets, places) = (&mut self.meter, &mut self.outlets, &self.places);
        match block.runs() {
            Some(runs) => runs.for_each(|run| {
                run.packets()
                    .for_each(|packet| push(meter, outlets, places, &packet));
            }),
            None => block
                .packets()
                .for_each(|packet| push(meter, outlets, places, &packet)),
        }
        self.report_if_due()
    }

    /// Lets time go on where no packets come.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Result<(), FlowError> {
        self.meter.advance(nanos(now), &mut self.outlets);
        self.report_if_due()
    }

    fn report_if_due(&mut self) -> Result<(), FlowError> {
        let Some((interval, last)) = self.reports else {
            return Ok(());
        };
        if last.elapsed() < interval {
            return Ok(());
        }
        self.reports = Some((interval, Instant::now()));
        self.meter.settle(&mut self.outlets);
        self.tables()
    }

    fn tables(&mut self) -> Result<(), FlowError> {
        let Some(talkers) = &mut self.outlets.talkers else {
            return Ok(());
        };
        let text = talkers.take();
        let mut output = io::stdout().lock();
        let written = output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush());
        match written {
            // Whoever reads has seen enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(FlowError::Print(error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.meter.counters()
    }

    /// Ends all flows, and prints the last tables.
    pub(crate) fn finish(&mut self) -> Result<(), FlowError> {
        self.meter.flush(&mut self.outlets);
        self.tables()
    }

    /// Tells what was done.
    pub(crate) fn summarise(&self, summary: &Summary) {
        raw(summary.text(&self.counters(), self.meter.memory(), self.json));
    }
}

#[inline]
fn push(meter: &mut Meter, outlets: &mut Outlets, places: &[Place], packet: &Packet<'_>) {
    const UNKNOWN: Place = Place {
        link: LinkLayer::Other,
        input: 0,
    };
    let place = places.get(packet.interface as usize).unwrap_or(&UNKNOWN);
    let metered = MeteredPacket {
        data: packet.data,
        len: packet.len,
        time_ns: nanos(packet.timestamp),
        link: place.link,
        input: place.input,
    };
    meter.push(&metered, outlets);
}

/// Nanoseconds since 1970; what is before or too long after is at the nearest end.
#[inline]
fn nanos(time: Timestamp) -> u64 {
    u64::try_from(time.secs())
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.subsec_nanos().into())
}
