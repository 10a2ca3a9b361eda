//! Ready questions, and the SQL that they are.

use jiff::SignedDuration;

use crate::error::QueryError;
use crate::store::Range;

/// The names of the ready questions.
pub(crate) const NAMES: &str =
    "top hosts, top ports, top apps, top names, top exporters, talkers, scans, compare yesterday";

/// The help after the options.
pub(crate) const HELP: &str = "\
Ready questions:
  top hosts          hosts by the bytes that they sent and received
  top ports          protocols and ports of servers by bytes
  top apps           protocols of the application layer by bytes
  top names          names of servers by bytes
  top exporters      probes and exporters by bytes
  talkers            pairs of hosts by bytes, both directions together
  scans              hosts with short flows to many hosts or many ports
  compare yesterday  hosts by the difference of their bytes to the same time of the day before

SQL is that of DataFusion, on the table flows. Functions beside the usual ones: ip_text(src), ip('192.0.2.1'),
cidr_match(src, '10.0.0.0/8'), port_name(dst_port, protocol), protocol_name(protocol). Addresses have 16 bytes and are
printed as text; src_text and dst_text are text.

Examples:
  ringtap query --store DIR top hosts --last 1h
  ringtap query --store DIR \"SELECT dst_text, sum(bytes) FROM flows WHERE src = ip('192.0.2.1') GROUP BY 1\"";

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// SQL of the user.
    Sql(String),
    TopHosts,
    TopPorts,
    TopApps,
    TopNames,
    TopExporters,
    Talkers,
    Scans,
    CompareYesterday,
}

/// Bytes and packets as they were before sampling.
const SENT: &str = "bytes * sampling";
const RECEIVED: &str = "coalesce(reverse_bytes, 0) * sampling";
/// The distance of a comparison.
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// A host with short flows to so many hosts, or ports, scans.
const SCAN: u32 = 30;

impl Question {
    /// Returns the question of the words on the command line.
    pub(crate) fn parse(words: &[String]) -> Result<Self, QueryError> {
        let text = words.join(" ");
        let lower = text.trim().to_ascii_lowercase();
        Ok(match lower.as_str() {
            "top" | "top hosts" => Self::TopHosts,
            "top ports" => Self::TopPorts,
            "top apps" => Self::TopApps,
            "top names" => Self::TopNames,
            "top exporters" => Self::TopExporters,
            "talkers" => Self::Talkers,
            "scans" => Self::Scans,
            "compare yesterday" | "compare" => Self::CompareYesterday,
            sql if ["select", "with", "describe", "show", "explain", "values"]
                .iter()
                .any(|word| sql.starts_with(word)) =>
            {
                Self::Sql(text)
            }
            _ => return Err(QueryError::Question { question: text }),
        })
    }

    /// Whether it is not the user's SQL.
    pub(crate) fn is_ready(&self) -> bool {
        !matches!(self, Self::Sql(_))
    }

    /// Returns the range that is read: a comparison also reads the same time of the day before.
    pub(crate) fn reads(&self, range: Range) -> Range {
        match self {
            Self::CompareYesterday => Range {
                from: range.from.and_then(|time| time.checked_sub(DAY).ok()),
                ..range
            },
            _ => range,
        }
    }

    /// Returns the SQL. `flows` has the rows of the range.
    pub(crate) fn sql(&self, range: Range, rows: u32) -> String {
        let by = |name: &str, condition: &str| {
            format!(
                "SELECT {name}, count(*) AS flows, sum({SENT} + {RECEIVED}) AS bytes FROM flows \
                 WHERE {condition} GROUP BY 1 ORDER BY bytes DESC, 1 LIMIT {rows}"
            )
        };
        match self {
            Self::Sql(sql) => sql.clone(),
            Self::TopHosts => format!(
                "SELECT host, sum(flows) AS flows, sum(sent) AS sent, sum(received) AS received, \
                 sum(sent) + sum(received) AS bytes FROM ({}) GROUP BY host ORDER BY bytes DESC, host LIMIT {rows}",
                hosts("flows")
            ),
            Self::TopPorts => format!(
                "SELECT protocol_name(protocol) AS protocol, dst_port AS port, \
                 port_name(dst_port, protocol) AS service, count(*) AS flows, sum({SENT} + {RECEIVED}) AS bytes \
                 FROM flows WHERE dst_port IS NOT NULL GROUP BY 1, 2, 3 ORDER BY bytes DESC, 1, 2 LIMIT {rows}"
            ),
            Self::TopApps => by("app", "app IS NOT NULL"),
            Self::TopNames => by("name", "name IS NOT NULL"),
            Self::TopExporters => by("exporter", "true"),
            Self::Talkers => format!(
                "SELECT CASE WHEN src <= dst THEN src ELSE dst END AS host, \
                 CASE WHEN src <= dst THEN dst ELSE src END AS other, count(*) AS flows, \
                 sum({SENT} + {RECEIVED}) AS bytes FROM flows GROUP BY 1, 2 ORDER BY bytes DESC, 1, 2 LIMIT {rows}"
            ),
            Self::Scans => format!(
                "SELECT src AS host, count(DISTINCT dst) AS hosts, count(DISTINCT dst_port) AS ports, \
                 count(*) AS flows, min(first) AS first, max(last) AS last FROM flows \
                 WHERE packets <= 3 AND coalesce(reverse_packets, 0) <= 3 AND dst_port IS NOT NULL \
                 GROUP BY src HAVING count(DISTINCT dst) >= {SCAN} OR count(DISTINCT dst_port) >= {SCAN} \
                 ORDER BY flows DESC, host LIMIT {rows}"
            ),
            Self::CompareYesterday => compare(range, rows),
        }
    }
}

/// Returns a row for each end of each flow of a table.
fn hosts(table: &str) -> String {
    format!(
        "SELECT src AS host, count(*) AS flows, sum({SENT}) AS sent, sum({RECEIVED}) AS received FROM {table} \
         GROUP BY src UNION ALL SELECT dst AS host, count(*) AS flows, sum({RECEIVED}) AS sent, \
         sum({SENT}) AS received FROM {table} GROUP BY dst"
    )
}

fn compare(range: Range, rows: u32) -> String {
    let before = Range {
        from: range.from.and_then(|time| time.checked_sub(DAY).ok()),
        to: range.to.unwrap_or(range.now).checked_sub(DAY).ok(),
        now: range.now,
    };
    let earlier = format!("(SELECT * FROM stored WHERE {})", before.condition());
    format!(
        "SELECT host, sum(now) AS bytes, sum(before) AS day_before, sum(now) - sum(before) AS difference FROM (\
         SELECT host, sent + received AS now, CAST(0 AS BIGINT) AS before FROM ({}) \
         UNION ALL SELECT host, CAST(0 AS BIGINT) AS now, sent + received AS before FROM ({})) \
         GROUP BY host ORDER BY abs(sum(now) - sum(before)) DESC, host LIMIT {rows}",
        hosts("flows"),
        hosts(&earlier)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Question, QueryError> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Question::parse(&words)
    }

    #[test]
    fn words_are_questions_or_sql() {
        assert_eq!(parse("top hosts").expect("known"), Question::TopHosts);
        assert_eq!(
            parse("Compare yesterday").expect("known"),
            Question::CompareYesterday
        );
        assert!(matches!(parse("SELECT 1"), Ok(Question::Sql(_))));
        assert!(parse("top secret").is_err());
        assert!(parse("DROP TABLE flows").is_err());
    }

    #[test]
    fn a_comparison_reads_the_day_before_too() {
        let time = |text: &str| Some(text.parse().expect("a time"));
        let range = Range {
            from: time("2026-11-26T07:30:00Z"),
            to: None,
            now: "2026-11-26T08:30:00Z".parse().expect("a time"),
        };
        let earliest = |question: Question| question.reads(range).from;
        assert_eq!(
            earliest(Question::CompareYesterday),
            time("2026-11-25T07:30:00Z")
        );
        assert_eq!(earliest(Question::TopHosts), range.from);
    }
}
