//! Prints intervals as lines: JSON for programs, text for logs.

use std::io::{self, StdoutLock, Write};

use jiff::Timestamp;
use ringtap_capture::stat::{Count, Interval};
use serde::Serialize;

use super::Output;
use super::figure::{Rows, counts, human, names, rate};
use crate::notice::counted;

/// Prints one JSON object per interval. Its keys are part of the command line's contract.
pub(super) struct Json<W = StdoutLock<'static>> {
    rows: Rows,
    out: W,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<Vec<Counted<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasons: Option<Vec<Counted<'a>>>,
    total: Counted<'a>,
    lost: Option<u64>,
    before_hook: Option<u64>,
}

#[derive(Serialize)]
struct Counted<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    packets: u64,
    bytes: u64,
}

impl<'a> Counted<'a> {
    fn new(count: Count) -> Self {
        let Count { packets, bytes } = count;
        Self {
            filter: None,
            reason: None,
            packets,
            bytes,
        }
    }
}

impl Json {
    pub(super) fn new(rows: Rows) -> Self {
        let out = io::stdout().lock();
        Self { rows, out }
    }
}

impl<W: Write> Json<W> {
    fn line(&mut self, time: Timestamp, interval: &Interval) -> io::Result<()> {
        let rows = self.rows.names.iter().zip(&interval.filters).enumerate();
        let rows = rows.filter(|(row, (_, count))| self.rows.shows(*row, **count));
        let rows = rows.map(|(_, (name, count))| match self.rows.are_reasons {
            true => Counted {
                reason: Some(name),
                ..Counted::new(*count)
            },
            false => Counted {
                filter: Some(name),
                ..Counted::new(*count)
            },
        });
        let mut rows = Some(rows.collect());
        let line = Line {
            time: format!("{time:.9}"),
            seconds: interval.elapsed.as_secs_f64(),
            reasons: rows.take_if(|_| self.rows.are_reasons),
            filters: rows,
            total: Counted::new(interval.total),
            lost: interval.lost,
            before_hook: interval.before_hook,
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.out.write_all(&text)?;
        self.out.flush()
    }
}

impl<W: Write> Output for Json<W> {
    fn interval(&mut self, interval: &Interval, _totals: &Interval) -> io::Result<()> {
        self.line(Timestamp::now(), interval)
    }
}

/// Prints one line per interval and filter.
pub(super) struct Plain<W = StdoutLock<'static>> {
    rows: Rows,
    names: Vec<String>,
    out: W,
}

impl Plain {
    pub(super) fn new(rows: Rows) -> Self {
        Self {
            names: names(&rows.names),
            rows,
            out: io::stdout().lock(),
        }
    }
}

impl<W: Write> Plain<W> {
    fn lines(&mut self, time: Timestamp, interval: &Interval) -> io::Result<()> {
        let seconds = interval.elapsed.as_secs_f64();
        let mut text = String::new();
        let rows = self.names.iter().zip(counts(interval)).enumerate();
        let rows = rows.filter(|(row, (_, count))| self.rows.shows(*row, *count));
        for (_, (name, count)) in rows {
            let Count { packets, bytes } = count;
            let packet_rate = human(rate(packets, interval));
            let bit_rate = human(8.0 * rate(bytes, interval));
            let (packets, bytes) = (counted(packets, "packet"), counted(bytes, "byte"));
            text.push_str(&format!(
                "{time:.3} {seconds:.3} s  {name}: {packets}, {bytes}, \
                 {packet_rate}packets/s, {bit_rate}bit/s\n"
            ));
        }
        if let Some(lost) = interval.lost.filter(|lost| *lost > 0) {
            text.push_str(&format!(
                "{time:.3} {seconds:.3} s  {} not counted: lost\n",
                counted(lost, "packet")
            ));
        }
        if let Some(missed) = interval.before_hook.filter(|missed| *missed > 0) {
            text.push_str(&format!(
                "{time:.3} {seconds:.3} s  {missed} packets not counted: taken before the hook\n"
            ));
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Output for Plain<W> {
    fn interval(&mut self, interval: &Interval, _totals: &Interval) -> io::Result<()> {
        self.lines(Timestamp::now(), interval)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn interval() -> Interval {
        let count = |packets, bytes| Count { packets, bytes };
        Interval {
            elapsed: Duration::from_millis(1_500),
            filters: vec![count(3_000, 180_000), count(0, 0)],
            total: count(3_001, 180_060),
            lost: Some(2),
            before_hook: Some(0),
        }
    }

    fn rows(are_reasons: bool) -> Rows {
        Rows {
            names: ["udp", "host \"a\""].map(str::to_owned).to_vec(),
            are_reasons,
        }
    }

    const TIME: Timestamp = Timestamp::constant(1_769_860_800, 5_000_000);

    #[test]
    fn json_has_the_contract_s_keys() {
        let mut json = Json {
            rows: rows(false),
            out: Vec::new(),
        };
        json.line(TIME, &interval()).unwrap();
        assert_eq!(
            String::from_utf8(json.out).unwrap(),
            "{\"time\":\"2026-01-31T12:00:00.005000000Z\",\"seconds\":1.5,\"filters\":[\
             {\"filter\":\"udp\",\"packets\":3000,\"bytes\":180000},\
             {\"filter\":\"host \\\"a\\\"\",\"packets\":0,\"bytes\":0}],\
             \"total\":{\"packets\":3001,\"bytes\":180060},\"lost\":2,\"before_hook\":0}\n"
        );
    }

    #[test]
    fn reasons_without_packets_are_left_out() {
        let mut json = Json {
            rows: rows(true),
            out: Vec::new(),
        };
        json.line(TIME, &interval()).unwrap();
        let text = String::from_utf8(json.out).unwrap();
        let reasons = "\"reasons\":[{\"reason\":\"udp\",\"packets\":3000,\"bytes\":180000}],";
        assert!(text.contains(reasons), "{text}");
        assert!(!text.contains("filters"), "{text}");
    }

    #[test]
    fn plain_lines_have_counts_and_rates() {
        let rows = rows(false);
        let mut plain = Plain {
            names: names(&rows.names),
            rows,
            out: Vec::new(),
        };
        plain.lines(TIME, &interval()).unwrap();
        let text = String::from_utf8(plain.out).unwrap();
        let first = "2026-01-31T12:00:00.005Z 1.500 s  udp: 3000 packets, 180000 bytes, \
                     2.00 kpackets/s, 960 kbit/s\n";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(text.lines().count(), 4);
        assert!(
            text.ends_with(" s  2 packets not counted: lost\n"),
            "{text}"
        );
    }
}
