//! Alerts without a view, for the triggers of a recorder: a meter and a model of bounded size.
//!
//! Data in: the blocks of a device, on the thread that captures them. Data out: each new alert, on the model's own
//! thread. The meter never waits for it: if the queue between both is full, news of flows are dropped.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap_capture::{Block, Interface, Stats};
use ringtap_flow::MeterOptions;
use ringtap_look::api::Alert;
use ringtap_look::{AlertOptions, Look, LookOptions, WhenFull, queue};

use super::pump::Pump;
use super::taps::Taps;
use crate::flow::probe::now_ns;
use crate::setup::{SetupError, lock, setup, spawn};

/// Flows under way in the meter; others are counted as flows that have ended.
const FLOWS: u32 = 16_384;
/// Flows and hosts in the model, which shows them to nobody.
const LISTED: usize = 1024;
const HOSTS: usize = 16_384;
/// How late packets may be delivered.
const LATE_NS: u64 = 500_000_000;

/// A meter that raises alerts.
pub(crate) struct AlertMeter {
    pump: Pump,
    thread: JoinHandle<()>,
}

impl AlertMeter {
    /// Starts the model's thread, which calls `raised` for each new alert.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        alerts: AlertOptions,
        interfaces: &[Interface],
        mut raised: impl FnMut(&Alert) + Send + 'static,
    ) -> Result<Self, SetupError> {
        let options = MeterOptions::default()
            .flows(FLOWS)
            .inactive(Duration::from_secs(15))
            .both_ways(true)
            .interim(true)
            .seed(RandomState::new().hash_one(0));
        let (feed, inlet) = queue(WhenFull::Drop);
        let pump = Pump::new(&options, feed, Arc::<Taps>::default(), false);
        let failed = |error| setup("prepare the meter for alerts", io::Error::other(error));
        let mut pump = pump.map_err(failed)?;
        pump.interfaces.learn(interfaces);
        let look = Look::new(LookOptions {
            flows: LISTED,
            hosts: HOSTS,
            alerts,
            ..LookOptions::default()
        });
        let work = move || {
            let look = Mutex::new(look);
            let mut seen = 0;
            inlet.run(&look, |_| {
                let alerts = lock(&look);
                for alert in alerts.alerts(seen).alerts.iter().rev() {
                    seen = seen.max(alert.seq);
                    raised(alert);
                }
            });
        };
        let thread = spawn("alerts", work)?;
        Ok(Self { pump, thread })
    }

    /// Meters a block of packets.
    pub(crate) fn block(&mut self, block: &Block<'_>) {
        self.pump.block(block);
    }

    /// Registers the interfaces, when there are new ones.
    pub(crate) fn interfaces(&mut self, interfaces: &[Interface]) {
        self.pump.interfaces.learn(interfaces);
    }

    /// Reports flows, if it is time. Call it often, also without packets.
    pub(crate) fn tick(&mut self) {
        let now = now_ns();
        self.pump.advance(now.saturating_sub(LATE_NS));
        if self.pump.take_tick() {
            self.pump.tick(now, &Stats::default());
        }
    }

    /// Ends the model's thread.
    pub(crate) fn end(self) {
        drop(self.pump);
        // A panic was reported when it happened.
        let _ = self.thread.join();
    }
}
