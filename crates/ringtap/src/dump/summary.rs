//! The counters and losses of a run by layer, as lines for people or as one JSON object for scripts.

use std::io::{self, Write};
use std::time::Duration;

use ringtap_capture::Stats;
use ringtap_savefile::Totals;

use super::error::DumpError;
use crate::losses::{JsonDropped, JsonWho, JsonXdp};
use crate::notice::counted;
use crate::object::object;

/// The counters of one run.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// The engine's name.
    pub(crate) engine: &'static str,
    /// How long the capture ran.
    pub(crate) elapsed: Duration,
    /// Packets written or printed.
    pub(crate) captured: u64,
    /// Captured bytes of those packets.
    pub(crate) bytes: u64,
    /// Packets left out by sampling.
    pub(crate) sampled_out: u64,
    /// The source's own counters.
    pub(crate) stats: Stats,
}

object! {
    pub(crate) struct Json(summary: &Summary) {
        engine: &'static str = summary.engine,
        seconds: f64 = summary.elapsed.as_secs_f64(),
        captured: u64 = summary.captured,
        received: Option<u64> = summary.stats.received,
        bytes: u64 = summary.bytes,
        dropped: JsonDropped = JsonDropped::new(&summary.stats.dropped, summary.sampling()),
        /// Only if the adapter's stamps were requested.
        #[serde(skip_serializing_if = "Option::is_none")]
        stamped_by_host: Option<u64> = summary.stats.stamped_by_host,
        /// Only if there are any.
        #[serde(skip_serializing_if = "Option::is_none")]
        clamped: Option<u64> = summary.stats.clamped.filter(|&n| n > 0),
        /// Only for dropped packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        xdp: Option<JsonXdp> = summary.stats.xdp.map(JsonXdp::new),
        /// Only with `--who`.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<JsonWho> = summary.stats.who.map(JsonWho::new),
    }
}

impl Summary {
    /// Corrects the counters after a failure: they count the packets in the output, not those on their way
    /// there.
    pub(crate) fn correct(
        &mut self,
        result: &Result<(), DumpError>,
        finished: &Result<Option<Totals>, DumpError>,
    ) {
        let written = match (result, finished) {
            (Err(error), Ok(Some(totals))) => error.intact_packets().or(Some(totals.packets)),
            (Err(error), _) | (Ok(()), Err(error)) => error.intact_packets(),
            (Ok(()), Ok(_)) => None,
        };
        self.captured = written.unwrap_or(self.captured);
    }

    /// Returns the packets that sampling left out, in the engine or here.
    fn sampling(&self) -> Option<u64> {
        self.stats
            .dropped
            .sampling
            .or((self.sampled_out > 0).then_some(0))
            .map(|n| n + self.sampled_out)
    }

    /// Writes one JSON object and a line end. Its keys are part of the command line's contract.
    pub(crate) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &self.json())?;
        writeln!(out)
    }

    /// Returns the counters as `--json-stats` prints them.
    pub(crate) fn json(&self) -> Json {
        Json::new(self)
    }

    /// Writes lines in the manner of `tcpdump`, with each kind of loss.
    pub(crate) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{} captured", counted(self.captured, "packet"))?;
        if let Some(n) = self.stats.received {
            let verb = if self.engine == "file" {
                "read"
            } else {
                "received by the filter"
            };
            writeln!(out, "{} {verb}", counted(n, "packet"))?;
        }
        let dropped = &self.stats.dropped;
        // The common lines are always there; others only if they report something.
        let places = [
            (dropped.hook, "dropped at the hook", false),
            (self.sampling(), "left out by sampling", false),
            (dropped.ring, "dropped in the ring", true),
            (dropped.interface, "dropped by the interface", true),
            (
                dropped.before_hook,
                "taken by another program before the hook",
                false,
            ),
            (dropped.application, "dropped by the application", false),
        ];
        for (count, place, always) in places {
            if let Some(n) = count.filter(|&n| always || n > 0) {
                writeln!(out, "{} {place}", counted(n, "packet"))?;
            }
        }
        if let Some(n) = self.stats.clamped.filter(|&n| n > 0) {
            let packets = counted(n, "packet");
            writeln!(out, "{packets} truncated more than requested")?;
        }
        self.write_xdp(out)?;
        self.write_who(out)?;
        if let Some(n) = self.stats.stamped_by_host {
            let have = if n == 1 { "has" } else { "have" };
            let packets = counted(n, "packet");
            writeln!(out, "{packets} {have} the host's time, not the adapter's")?;
        }
        if let Some(n) = self.stats.freezes.filter(|&n| n > 0) {
            writeln!(out, "the ring was full {}", counted(n, "time"))?;
        }
        Ok(())
    }

    /// Writes what is missing of the processes.
    fn write_xdp(&self, out: &mut impl Write) -> io::Result<()> {
        let xdp = self.stats.xdp.unwrap_or_default();
        let losses = [
            (xdp.exceptions, "an XDP program failed"),
            (xdp.redirects, "XDP could not send or redirect it"),
        ];
        for (n, what) in losses.into_iter().filter(|(n, _)| *n > 0) {
            let packets = counted(n, "packet");
            writeln!(out, "{packets} lost without being captured: {what}")?;
        }
        Ok(())
    }

    fn write_who(&self, out: &mut impl Write) -> io::Result<()> {
        let who = self.stats.who.unwrap_or_default();
        let losses = [
            (
                who.refused,
                "uses of sockets could not be recorded: no memory for the process",
            ),
            (
                who.undescribed,
                "processes are named without their command line",
            ),
        ];
        for (n, what) in losses.iter().filter(|(n, _)| *n > 0) {
            writeln!(out, "{n} {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ringtap_capture::Dropped;

    use super::*;

    fn summary() -> Summary {
        Summary {
            engine: "packet",
            elapsed: Duration::from_millis(1500),
            captured: 1,
            bytes: 60,
            sampled_out: 0,
            stats: Stats {
                received: Some(3),
                dropped: Dropped {
                    ring: Some(2),
                    interface: None,
                    ..Dropped::default()
                },
                freezes: Some(1),
                ..Stats::default()
            },
        }
    }

    #[test]
    fn json_has_the_contract_s_keys_and_null_for_the_unknown() {
        let mut out = Vec::new();
        summary().write_json(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"engine\":\"packet\",\"seconds\":1.5,\"captured\":1,\"received\":3,\"bytes\":60,\
             \"dropped\":{\"hook\":null,\"sampling\":null,\"ring\":2,\"interface\":null,\
             \"application\":null}}\n"
        );
    }

    #[test]
    fn stamps_of_the_host_are_told_where_the_adapter_s_were_wanted() {
        let mut summary = summary();
        summary.stats.stamped_by_host = Some(7);
        summary.stats.clamped = Some(2);
        let mut out = Vec::new();
        summary.write_json(&mut out).unwrap();
        summary.write_text(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.contains(",\"stamped_by_host\":7,\"clamped\":2}\n"),
            "{out}"
        );
        assert!(
            out.contains("\n2 packets truncated more than requested\n"),
            "{out}"
        );
        let line = "\n7 packets have the host's time, not the adapter's\n";
        assert!(out.contains(line), "{out}");
    }

    #[test]
    fn text_tells_the_losses_apart() {
        let mut out = Vec::new();
        Summary {
            sampled_out: 5,
            ..summary()
        }
        .write_text(&mut out)
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1 packet captured\n3 packets received by the filter\n5 packets left out by sampling\n\
             2 packets dropped in the ring\nthe ring was full 1 time\n"
        );
    }
}
