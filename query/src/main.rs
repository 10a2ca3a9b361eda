//! `ringtap-query`: asks a store of flow records (`ringtap flow --store`) by SQL, or with a ready question.
//!
//! Data in: the Parquet files of a store, read by DataFusion. Data out: a table, JSON, CSV or Arrow on standard output.
//! It changes nothing: statements that write are refused. `ringtap query` runs it; it is a program of its own because
//! DataFusion is as large as the rest of ringtap.
#![forbid(unsafe_code)]

mod answer;
mod error;
mod functions;
mod place;
mod questions;
mod rewrites;
mod store;

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Parser, ValueEnum};
use datafusion::execution::context::SQLOptions;
use jiff::Timestamp;

use error::QueryError;
use place::Place;
use store::{Limits, Range, Store};

/// Sums allocate and free much in many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Ask a store of flow records by SQL, or with a ready question.
#[derive(Debug, Parser)]
#[command(name = "ringtap query", bin_name = "ringtap query", version, max_term_width = 100, after_help = questions::HELP)]
struct Cli {
    /// Folder of the store, or s3://BUCKET/FOLDER of a copy; keys and server of S3 are in the variables AWS_…
    #[arg(long, value_name = "DIR", env = "RINGTAP_STORE", value_parser = OsStringValueParser::new().try_map(Place::parse))]
    store: Place,
    /// Only flows that ended in this time before now, such as 15m, 1h or 7d; a ready question takes 1h without it
    #[arg(long, value_name = "T", value_parser = time_span, conflicts_with_all = ["from", "to"])]
    last: Option<Duration>,
    /// Only flows that ended at this time or later, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Only flows that ended before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// Rows of the answer to a ready question
    #[arg(short = 'n', long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rows: u32,
    /// Form of the answer
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Memory for the query, such as 512M or 4G. Sorts and sums that need more use files in the temporary folder
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    memory: u64,
    /// Most bytes of these temporary files
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = size)]
    spill: u64,
    /// End a query that takes longer, such as 30s or 10m
    #[arg(long, value_name = "T", default_value = "5m", value_parser = time_span)]
    timeout: Duration,
    /// Threads; without it, as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Print the plan of the query instead of its answer
    #[arg(long)]
    explain: bool,
    /// SQL on the table flows, or a ready question
    #[arg(value_name = "SQL|QUESTION", required = true)]
    question: Vec<String>,
}

/// The forms of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people
    Table,
    /// An object a line
    Json,
    /// Comma-separated values, with a line of names
    Csv,
    /// An Arrow stream (IPC), with the types of the columns
    Arrow,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringtap query: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(cli: &Cli) -> Result<(), QueryError> {
    let question = questions::Question::parse(&cli.question)?;
    let range = range(cli, question.is_ready());
    let threads = cli.threads.map(usize::from);
    let threads =
        threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let limits = Limits {
        memory: cli.memory,
        spill: cli.spill,
        threads,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(QueryError::Runtime)?;
    let asked = runtime.block_on(async {
        let work = ask(cli, &question, range, &limits);
        let ended = tokio::time::timeout(cli.timeout, work).await;
        ended.unwrap_or(Err(QueryError::TimedOut {
            seconds: cli.timeout.as_secs_f64(),
        }))
    });
    // Threads that still read files need not be waited for.
    runtime.shutdown_background();
    asked
}

async fn ask(
    cli: &Cli,
    question: &questions::Question,
    range: Range,
    limits: &Limits,
) -> Result<(), QueryError> {
    let store = Store::open(&cli.store, limits, question.reads(range)).await?;
    store.restrict(range).await?;
    let mut sql = question.sql(range, cli.rows);
    if cli.explain {
        sql.insert_str(0, "EXPLAIN ");
    }
    let readable = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let frame = store.context.sql_with_options(&sql, readable).await?;
    let rows = frame.execute_stream().await?;
    answer::print(rows, cli.format).await
}

/// Returns the time that is asked about.
fn range(cli: &Cli, is_ready: bool) -> Range {
    let now = Timestamp::now();
    let hour = Duration::from_secs(3600);
    let is_open = cli.from.is_none() && cli.to.is_none();
    let last = cli.last.or_else(|| (is_ready && is_open).then_some(hour));
    match last {
        Some(last) => Range {
            from: now.checked_sub(last).ok(),
            to: None,
            now,
        },
        None => Range {
            from: cli.from,
            to: cli.to,
            now,
        },
    }
}

/// Parses a time such as 90s, 15m, 1h or 7d.
fn time_span(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 90s, 15m, 1h or 7d".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let seconds = match &text[end..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).filter(|&seconds| seconds > 0);
    let seconds = seconds.filter(|&seconds| seconds <= 100 * 366 * 86_400);
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// Parses a size such as 512M or 4G.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size from 16M, such as 512M or 4G".to_owned();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let shift = match &text[end..] {
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    (bytes >= 16 << 20).then_some(bytes).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page has every option and every ready question.
    #[test]
    fn the_page_is_complete() {
        use clap::CommandFactory as _;
        let page = include_str!("../../docs/reference/query.md");
        for argument in Cli::command().get_arguments() {
            if let Some(long) = argument.get_long() {
                assert!(
                    page.contains(&format!("`--{long} ")) || page.contains(&format!("`--{long}`")),
                    "{long}"
                );
            }
        }
        for question in questions::NAMES.split(", ") {
            assert!(page.contains(&format!("`{question}`")), "{question}");
        }
    }

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(time_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time_span("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(size("512M"), Ok(512 << 20));
        for wrong in ["", "1", "h", "0s", "1x", "99999999999999999999d", "-1h"] {
            assert!(time_span(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "G", "1M", "99999999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
