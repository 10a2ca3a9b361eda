//! The README's table: rows of several experiments.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::machine::Machine;
use crate::results::{Case, Contender, Figure, Metric, Results};

const DATA: &str = include_str!("../../data/readme.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Row>,
}

/// The source of a row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    what: String,
    experiment: String,
    /// Texts that the title of the case must all contain.
    case: Vec<String>,
    /// Names of metrics; the ratio is that of the first.
    metrics: Vec<String>,
    /// The contender; by default the first.
    contender: Option<String>,
    /// The peer; by default the case's reference.
    peer: Option<String>,
}

/// Returns Markdown: a sentence about the machine, the table, and a list of what was not measured.
///
/// # Errors
/// Returns an error if there are no results.
pub fn markdown(all: &[Results]) -> Result<String, String> {
    let rows: Rows = toml::from_str(DATA).map_err(|error| format!("the table's rows: {error}"))?;
    let is_shown = |results: &&Results| {
        let mut rows = rows.row.iter();
        rows.any(|row| row.experiment == results.experiment)
    };
    // Results of other experiments alone tell at least the machine.
    let shown: Vec<&Results> = all.iter().filter(is_shown).collect();
    let machine = machine_of(&shown).or_else(|_| machine(all))?;
    let mut text = machine + "\n| what | ringtap | peer | ratio |\n|---|---|---|---|\n";
    let mut missing = Vec::new();
    for row in &rows.row {
        match found(row, all) {
            Some(cells) => text += &format!("| {} | {cells} |\n", row.what),
            None => missing.push(row.experiment.as_str()),
        }
    }
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        text += &format!("\nNot or not wholly measured: {}.\n", missing.join(", "));
    }
    Ok(text)
}

/// Returns a sentence about the machine.
///
/// # Errors
/// Returns an error if there are no results.
pub(super) fn machine(all: &[Results]) -> Result<String, String> {
    machine_of(&all.iter().collect::<Vec<_>>())
}

fn machine_of(shown: &[&Results]) -> Result<String, String> {
    let newest = shown.iter().max_by_key(|results| &results.machine.time);
    let newest = newest.ok_or("there are no results")?;
    let quick = shown.iter().any(|results| results.quick);
    let rounds = match quick {
        true => "short runs",
        false => "medians of 3 or 5 rounds",
    };
    let each = |field: fn(&Machine) -> &str| {
        let all = shown.iter().map(|results| field(&results.machine));
        let all: BTreeSet<&str> = all.collect();
        all.into_iter().collect::<Vec<_>>().join(" and ")
    };
    // Results of several machines say so.
    let machine = Machine {
        kernel: each(|machine| &machine.kernel),
        processor: each(|machine| &machine.processor),
        ..newest.machine.clone()
    };
    let day = |results: &Results| results.machine.time.split('T').next().map(str::to_owned);
    let first = shown.iter().filter_map(|results| day(results)).min();
    let (first, last) = (first.unwrap_or_default(), day(newest).unwrap_or_default());
    let days = match first == last {
        true => format!("on {last}"),
        false => format!("from {first} to {last}"),
    };
    Ok(format!(
        "Measured {days} by `ringtap bench` ({rounds}): {}.\n",
        machine.description(),
    ))
}

/// Returns the cells of a row, if it was measured.
fn found(row: &Row, all: &[Results]) -> Option<String> {
    let results = all.iter().find(|one| one.experiment == row.experiment)?;
    let fits = |case: &&Case| row.case.iter().all(|text| case.title.contains(text));
    let mut figures = results.figures.iter();
    let (figure, case) = figures.find_map(|one| Some((one, one.cases.iter().find(fits)?)))?;
    let place = |name: &str| case.place(name);
    let own = row.contender.as_deref().map_or(Some(0), place)?;
    let peer = row.peer.as_deref().map_or(Some(case.reference), place)?;
    let ratio = ratio(case, own, peer, figure.metric(row.metrics.first()?)?)?;
    let (own, peer) = (&case.contenders[own], &case.contenders[peer]);
    let (own, name, peer) = (
        values(own, figure, row)?,
        &peer.name,
        values(peer, figure, row)?,
    );
    Some(format!("{own} | {name}: {peer} | {ratio}"))
}

fn values(contender: &Contender, figure: &Figure, row: &Row) -> Option<String> {
    let texts = row.metrics.iter().map(|name| {
        let at = figure.metric(name)?;
        let Metric { name, unit, digits } = &figure.metrics[at];
        let median = contender.samples.get(at)?.median();
        let value = format!("{median:.digits$}");
        Some(match (name.as_str(), unit.as_str()) {
            ("lost", _) if contender.samples[at].most() <= 0.0 => "0 lost".to_owned(),
            ("lost", "packets") => format!("{value} lost"),
            ("lost", unit) => format!("{value} {unit} lost"),
            ("99 of 100", unit) => format!("99 of 100 below {value} {unit}"),
            (_, "million packets/s") => format!("{value} Mpps"),
            (_, unit) => format!("{value} {unit}"),
        })
    });
    let texts: Option<Vec<String>> = texts.collect();
    texts.map(|texts| texts.join(", "))
}

/// Returns the ratio, or text that there is none.
fn ratio(case: &Case, own: usize, peer: usize, metric: usize) -> Option<String> {
    use crate::sample::{Verdict, compare};
    let sample = |who: usize| case.contenders.get(who)?.samples.get(metric);
    let (own_sample, peer_sample) = (sample(own)?, sample(peer)?);
    Some(match compare(own_sample, peer_sample) {
        Verdict::Less | Verdict::More if peer == case.reference => {
            let ratio = case.contenders[own].ratios.get(metric)?;
            format!("{:.2}", ratio.median())
        }
        Verdict::Less | Verdict::More => {
            format!("{:.2}", own_sample.median() / peer_sample.median())
        }
        verdict => verdict.text().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample_results;

    #[test]
    fn rows_come_from_results() {
        let mut results = sample_results("read");
        let figure = &mut results.figures[1];
        figure.metrics[0] = Metric::new("time", "s", 1);
        figure.cases[0].title = "Internet mix, tcp port 443".to_owned();
        results.figures.remove(0);
        let text = markdown(&[results]).expect("a table");
        assert!(text.contains("short runs"), "{text}");
        let row = text
            .lines()
            .find(|line| line.contains("reading a file"))
            .expect("a row");
        assert!(row.ends_with("| 4.3 s | tcpdump: 2.1 s | 2.10 |"), "{row}");
        assert!(
            text.contains("Not or not wholly measured: flow, libpcap, send,"),
            "{text}"
        );
        assert!(markdown(&[]).is_err());
    }
}
