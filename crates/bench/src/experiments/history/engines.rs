//! The programs that are asked, and how each is asked the same.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_lab::process::peak_memory;

use super::flows;
use crate::helpers::{float, text};
use crate::session::Done;

/// The hour that is asked for.
const HOUR: u64 = 12;
/// The time between two looks at the memory of a program.
const LOOK: Duration = Duration::from_millis(2);

/// A question, for each engine.
pub(super) struct Question {
    pub(super) title: &'static str,
    /// Whether only one hour is asked for.
    is_hour: bool,
    host: Option<IpAddr>,
}

impl Question {
    /// Returns all questions: the hour's and the day's top hosts, and one host's day.
    pub(super) fn all(host: IpAddr) -> [Self; 3] {
        let question = |title, is_hour, host| Self {
            title,
            is_hour,
            host,
        };
        [
            question("the ten hosts that sent most in an hour", true, None),
            question("the ten hosts that sent most in the day", false, None),
            question("one host's day", false, Some(host)),
        ]
    }

    /// Returns the statement for a dialect: how it writes an address of bytes, and the condition of an hour.
    fn sql(&self, from: &str, text: &str, address: &str, hour: &str) -> String {
        match self.host {
            None => {
                let only = self.is_hour.then(|| format!(" WHERE {hour}"));
                let only = only.unwrap_or_default();
                format!(
                    "SELECT {text} AS host, CAST(sum(bytes) AS BIGINT) AS total FROM {from}{only} \
                     GROUP BY src ORDER BY total DESC LIMIT 10"
                )
            }
            Some(_) => format!(
                "SELECT count(*), CAST(sum(bytes) AS BIGINT) FROM {from} WHERE src = {address} OR dst = {address}"
            ),
        }
    }
}

/// A program that is asked.
pub(super) enum Engine {
    Ringtap {
        query: PathBuf,
        store: PathBuf,
    },
    Nfdump {
        ask: PathBuf,
        files: PathBuf,
    },
    Python {
        python: PathBuf,
        name: &'static str,
        script: PathBuf,
        files: String,
    },
}

/// An answer, a line `ADDRESS BYTES` or `FLOWS BYTES` for each row, and what it cost.
pub(super) struct Answered {
    pub(super) answer: String,
    pub(super) seconds: f64,
    /// In MiB.
    pub(super) memory: f64,
}

/// Runs a statement, and prints the rows and the seconds.
const DUCKDB: &str = "import sys, time, duckdb\n\
    c = duckdb.connect()\n\
    begun = time.monotonic()\n\
    rows = c.execute(sys.argv[1]).fetchall()\n\
    spent = time.monotonic() - begun\n\
    for row in rows: print(*row)\n\
    print(spent)\n";
const CHDB: &str = "import sys, time, chdb\n\
    chdb.query('SELECT 1')\n\
    begun = time.monotonic()\n\
    rows = str(chdb.query(sys.argv[1], 'TSV'))\n\
    spent = time.monotonic() - begun\n\
    for row in rows.splitlines(): print(*row.split('\\t'))\n\
    print(spent)\n";

impl Engine {
    /// Returns the engine of a Python module, with its version, if there is one.
    pub(super) fn python(
        python: &Path,
        module: &str,
        script: &Path,
        store: &Path,
    ) -> Done<Option<(Self, String)>> {
        let print = format!("import {module}; print({module}.__version__)");
        let mut command = Command::new(python);
        let output = command.args(["-c", &print]).stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
        if !output.status.success() {
            return Ok(None);
        }
        let (name, code) = match module {
            "duckdb" => ("DuckDB", DUCKDB),
            _ => ("chDB", CHDB),
        };
        std::fs::write(script, code)?;
        let engine = Self::Python {
            python: python.to_owned(),
            name,
            script: script.to_owned(),
            files: format!("{}/date=*/hour=*/exporter=*/*.parquet", store.display()),
        };
        Ok(Some((engine, text(&output.stdout).trim().to_owned())))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ringtap { .. } => "ringtap query",
            Self::Nfdump { .. } => "nfdump",
            Self::Python { name, .. } => name,
        }
    }

    /// Returns the number of flows in nfdump's files.
    pub(super) fn flows(&self) -> Done<u64> {
        let Self::Nfdump { ask, files } = self else {
            return Err("it is not nfdump".into());
        };
        let mut sum = 0;
        for hour in 0..flows::HOURS {
            let mut command = Command::new(ask);
            command
                .args(["-I", "-R"])
                .arg(files.join(format!("{hour:02}")));
            let text = text(&command.output()?.stdout);
            let count = text.lines().find_map(|line| line.strip_prefix("Flows: "));
            let count = count.and_then(|count| count.trim().parse::<u64>().ok());
            sum += count.ok_or_else(|| format!("nfdump -I: {text}"))?;
        }
        Ok(sum)
    }

    /// Asks a question.
    pub(super) fn ask(&self, question: &Question) -> Done<Answered> {
        let mut command = match self {
            Self::Ringtap { query, store } => asked_of_ringtap(query, store, question),
            Self::Nfdump { ask, files } => asked_of_nfdump(ask, files, question),
            Self::Python {
                python,
                name,
                script,
                files,
            } => {
                let mut command = Command::new(python);
                command.arg(script).arg(statement(name, files, question));
                command
            }
        };
        let (text, mut seconds, memory) = measured(&mut command)?;
        let mut lines: Vec<&str> = text.lines().collect();
        let answer = match (self, question.host) {
            // Its lines are the flows, by their bytes.
            (Self::Nfdump { .. }, Some(_)) => sums(&lines),
            (Self::Nfdump { .. }, None) => top(&lines),
            (Self::Ringtap { .. }, _) => lines.split_off(1).join("\n").replace(',', " "),
            (Self::Python { .. }, _) => {
                let within = lines.pop().and_then(|line| line.parse().ok());
                seconds = within.ok_or_else(|| format!("{}: {text}", self.name()))?;
                lines.join("\n")
            }
        };
        Ok(Answered {
            answer,
            seconds,
            memory,
        })
    }
}

fn asked_of_ringtap(query: &Path, store: &Path, question: &Question) -> Command {
    let mut command = Command::new(query);
    command.arg("--store").arg(store).args(["--format", "csv"]);
    if question.is_hour {
        command.args(["--from", "2026-01-31T12:00:00Z"]);
        command.args(["--to", "2026-01-31T13:00:00Z"]);
    }
    let host = question.host.map(|host| format!("ip('{host}')"));
    let host = host.unwrap_or_default();
    command.arg(question.sql("flows", "ip_text(src)", &host, "true"));
    command
}

fn asked_of_nfdump(ask: &Path, files: &Path, question: &Question) -> Command {
    let mut command = Command::new(ask);
    command.arg("-R").arg(match question.is_hour {
        true => files.join(format!("{HOUR:02}")),
        false => files.to_owned(),
    });
    match question.host {
        Some(host) => command.args(["-q", "-N", "-o", "fmt:%byt", &format!("host {host}")]),
        None => command.args(["-q", "-N", "-n", "10", "-s", "srcip/bytes", "-o", "csv"]),
    };
    command
}

/// Returns address and bytes of each host, by the columns `val` and `byt`.
fn top(lines: &[&str]) -> String {
    let cells = |line: &&str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut rows = lines.iter().filter(|line| !line.is_empty()).map(cells);
    let head = rows.next().unwrap_or_default();
    let column = |row: &[String], name: &str| {
        let at = head.iter().position(|column| column == name);
        let cell = at.and_then(|at| row.get(at));
        cell.cloned().unwrap_or_default()
    };
    let rows = rows.map(|row| format!("{} {}", column(&row, "val"), column(&row, "byt")));
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns the number of lines and the sum of the numbers in them.
fn sums(lines: &[&str]) -> String {
    let numbers = lines.iter().filter_map(|line| line.trim().parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    format!("{} {}", numbers.len(), numbers.iter().sum::<u64>())
}

/// Returns the statement for DuckDB or ClickHouse.
fn statement(name: &str, files: &str, question: &Question) -> String {
    let octets = match question.host {
        Some(IpAddr::V4(host)) => host.octets(),
        _ => [0; 4],
    };
    let digits: String = octets.iter().map(|octet| format!("{octet:02X}")).collect();
    let bytes = format!("unhex('00000000000000000000FFFF{digits}')");
    match name {
        "DuckDB" => {
            let text = "concat_ws('.', ('0x' || hex(src)[25:26])::UTINYINT, ('0x' || hex(src)[27:28])::UTINYINT, \
                        ('0x' || hex(src)[29:30])::UTINYINT, ('0x' || hex(src)[31:32])::UTINYINT)";
            let from = format!("read_parquet('{files}', hive_partitioning = true)");
            question.sql(&from, text, &bytes, &format!("hour = {HOUR}"))
        }
        _ => {
            let from = format!("file('{files}', 'Parquet')");
            let text = "replaceOne(IPv6NumToString(src), '::ffff:', '')";
            let bytes = format!("toFixedString({bytes}, 16)");
            question
                .sql(&from, text, &bytes, &format!("_path LIKE '%hour={HOUR}/%'"))
                .replace("BIGINT", "Int64")
        }
    }
}

/// Runs a program. Returns what it printed, its seconds and its peak memory in MiB.
fn measured(command: &mut Command) -> Done<(String, f64, f64)> {
    let begun = Instant::now();
    let output = tempfile::NamedTempFile::new()?;
    let errors = tempfile::NamedTempFile::new()?;
    command.stdin(Stdio::null());
    command.stdout(output.reopen()?).stderr(errors.reopen()?);
    let mut child = command.spawn()?;
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_memory(child.id()).unwrap_or(0));
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(LOOK),
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    if status.success() {
        let told = std::fs::read_to_string(output.path())?;
        return Ok((told, seconds, float(peak) / 1_048_576.0));
    }
    let errors = std::fs::read_to_string(errors.path())?;
    Err(format!("{}: {errors}", command.get_program().display()).into())
}
