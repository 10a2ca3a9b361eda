//! Results as one self-contained HTML page: charts inline, no external files, with the documents'
//! own numbers beside them.

use std::collections::BTreeSet;
use std::path::Path;

use ringtap_chart::escaped;

use crate::chart;
use crate::contest::{self, against};
use crate::documents::Documents;
use crate::error::Error;
use crate::experiments::EXPERIMENTS;
use crate::results::{Case, Figure, Results};
use crate::session;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#111}\
 table{border-collapse:collapse;margin:1em 0}\
 td,th{border:1px solid #bbb;padding:2px 9px;text-align:left;vertical-align:top;font-size:14px}\
 svg{max-width:100%;height:auto}h2{margin-top:3em;border-top:2px solid #ccc;padding-top:.5em}\
 .note{color:#8a4b00}";

/// Returns the results of earlier runs in a folder, in the order of the experiments.
///
/// # Errors
/// Returns an error if a file cannot be read or has another format.
pub fn load(folder: &Path) -> Result<Vec<Results>, Error> {
    let all = EXPERIMENTS.iter().map(|one| load_one(folder, one.name));
    all.filter_map(Result::transpose).collect()
}

/// Returns the results of earlier runs in a folder; an error if there are none.
pub(crate) fn load_some(folder: &Path) -> Result<Vec<Results>, Error> {
    let all = load(folder)?;
    if !all.is_empty() {
        return Ok(all);
    }
    // A missing folder is reported as such.
    std::fs::read_dir(folder).map_err(Error::at(folder))?;
    Err(Error::NoResults(folder.to_owned()))
}

/// Returns the results of one experiment in a folder.
pub(crate) fn load_one(folder: &Path, experiment: &str) -> Result<Option<Results>, Error> {
    let path = session::file(folder, experiment, "json");
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(Error::at(&path))?,
    };
    let results = serde_json::from_str(&text);
    results.map_err(|source| Error::Json { path, source })
}

/// Returns the selected cases as text, under the titles of their figures.
pub(crate) fn text(results: &Results, only: Option<&str>) -> String {
    let mut body = String::new();
    for figure in &results.figures {
        let is_wanted = |case: &&Case| only.is_none_or(|only| case.title.contains(only));
        let cases: Vec<&Case> = figure.cases.iter().filter(is_wanted).collect();
        if !cases.is_empty() {
            body += &format!("\n== {}\n", figure.title);
        }
        for case in cases {
            body += &contest::table(case, &figure.metrics);
        }
    }
    if body.is_empty() {
        return body;
    }
    let kind = if results.quick { ", quick" } else { "" };
    let told = |(kind, texts): (&str, &[String])| -> String {
        let lines = texts.iter().map(|text| format!("  {kind}: {text}\n"));
        lines.collect()
    };
    let told = [("failed", &*results.failures), ("note", &*results.notes)].map(told);
    let told = told.concat();
    let (name, purpose) = (&results.experiment, &results.purpose);
    format!(
        "\nbench {name}: {purpose} ({}{kind})\n{body}{told}",
        results.machine.time
    )
}

/// Returns the page.
///
/// # Errors
/// Returns an error if a figure cannot be drawn.
pub fn html(all: &[Results]) -> Result<String, String> {
    let documents = Documents::read()?;
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n<title>ringtap bench</title>\n",
    );
    page += &format!("<style>{STYLE}</style>\n</head>\n<body>\n<h1>ringtap bench</h1>\n");
    page += &machines(all);
    page += "<p>Medians, with the whole range in brackets and as thin lines. Contenders ran by turns; a ratio is \
             the median of the rounds' ratios. Where ranges overlap, no difference is shown; of fewer than four rounds \
             also where they are no farther apart than they are wide.</p>\n";
    page += &overview(all);
    page += &peers(all);
    let is_here = |name: &str| all.iter().any(|results| results.experiment == name);
    let names = EXPERIMENTS.iter().map(|experiment| experiment.name);
    let missing: Vec<&str> = names.filter(|name| !is_here(name)).collect();
    if !missing.is_empty() {
        page += &format!("<p>Not measured: {}.</p>\n", missing.join(", "));
    }
    for results in all {
        page += &experiment(results, &documents)?;
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

/// Lists each machine once; if there are several, with the experiments that ran there.
fn machines(all: &[Results]) -> String {
    let mut machines: Vec<(String, Vec<&str>)> = Vec::new();
    for results in all {
        let (name, here) = (results.experiment.as_str(), results.machine.description());
        match machines.iter_mut().find(|(machine, _)| *machine == here) {
            Some((_, names)) => names.push(name),
            None => machines.push((here, vec![name])),
        }
    }
    let several = machines.len() > 1;
    let lines = machines.iter().map(|(machine, names)| {
        let who = several.then(|| format!("{}: ", names.join(", ")));
        format!("<p>{}{}</p>\n", who.unwrap_or_default(), escaped(machine))
    });
    lines.collect()
}

/// Lists each experiment with its purpose, its time and its peers.
fn overview(all: &[Results]) -> String {
    let mut text = String::from(
        "<table>\n<tr><th>experiment</th><th></th><th>time</th><th>took</th><th>peers</th></tr>\n",
    );
    for results in all {
        let name = &results.experiment;
        let kind = if results.quick { ", quick" } else { "" };
        let peers = results.peers.iter().map(|peer| peer.name.as_str());
        let peers: Vec<&str> = peers.collect();
        let cells = row(&[
            results.purpose.clone(),
            results.machine.time.clone(),
            format!("{:.0} s", results.seconds),
            peers.join(", "),
        ]);
        let link = format!("<td><a href=\"#{name}\">{name}</a>{kind}</td>");
        text += &cells.replacen("<tr>", &format!("<tr>{link}"), 1);
    }
    text + "</table>\n"
}

/// Lists the peers with their versions.
fn peers(all: &[Results]) -> String {
    let here = all.iter().flat_map(|results| &results.peers);
    let here: BTreeSet<_> = here.map(|peer| (&*peer.name, &*peer.version)).collect();
    let absent: BTreeSet<&String> = all.iter().flat_map(|results| &results.absent).collect();
    let absent = absent.into_iter().map(|name| (&**name, "absent"));
    let mut text = String::from("<table>\n<tr><th>peer</th><th>version</th></tr>\n");
    for (name, version) in here.into_iter().chain(absent) {
        text += &row(&[name.to_owned(), version.to_owned()]);
    }
    text + "</table>\n"
}

fn experiment(results: &Results, documents: &Documents) -> Result<String, String> {
    let name = &results.experiment;
    let mut text = format!("<h2 id=\"{name}\">{name}</h2>\n");
    text += &format!("<p>{}</p>\n", escaped(&results.caption));
    for figure in &results.figures {
        let svg = chart::svg(figure, &results.caption).map_err(|error| error.to_string())?;
        text += &format!("<figure>\n{svg}\n</figure>\n");
        text += &table(figure);
    }
    for (kind, told) in [("Failed", &results.failures), ("Note", &results.notes)] {
        let lines = told
            .iter()
            .map(|told| format!("<p class=\"note\">{kind}: {}</p>\n", escaped(told)));
        text.extend(lines);
    }
    let mut numbers = documents.of(name).peekable();
    if numbers.peek().is_some() {
        text += "<table>\n<tr><th>the documents</th><th>found</th><th>where</th></tr>\n";
        for (number, cite) in numbers {
            let place = format!("{cite}; {}", number.place);
            text += &row(&[number.what.clone(), number.value.clone(), place]);
        }
        text += "</table>\n";
    }
    Ok(text)
}

fn table(figure: &Figure) -> String {
    let head = escaped(&figure.x.label());
    let mut text = format!("<table>\n<tr><th>{head}</th><th></th>");
    for metric in &figure.metrics {
        text += &format!("<th>{}</th>", escaped(&metric.label()));
    }
    text += "</tr>\n";
    for case in &figure.cases {
        for (who, contender) in case.contenders.iter().enumerate() {
            let title = if who == 0 { case.title.as_str() } else { "" };
            let mut cells = vec![title.to_owned(), contender.name.clone()];
            for (at, metric) in figure.metrics.iter().enumerate() {
                let value = contender.samples[at].show(metric.digits);
                cells.push(match compared(case, who, at) {
                    Some(compared) => format!("{value}; {compared}"),
                    None => value,
                });
            }
            text += &row(&cells);
        }
    }
    text + "</table>\n"
}

/// Compares a contender with the reference.
fn compared(case: &Case, who: usize, metric: usize) -> Option<String> {
    let verdict = case.verdict(who, metric)?;
    let reference = &case.contenders.get(case.reference)?.name;
    let ratio = case.contenders.get(who)?.ratios.get(metric)?;
    Some(against(ratio, verdict, reference))
}

fn row(cells: &[String]) -> String {
    let cells = cells
        .iter()
        .map(|cell| format!("<td>{}</td>", escaped(cell)));
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{html, text};
    use crate::results::sample_results;
    use roxmltree::{Document, ParsingOptions};

    #[test]
    fn results_are_shown_as_text() {
        let results = sample_results("timestamp");
        let all = text(&results, None);
        for figure in &results.figures {
            assert!(all.contains(&format!("\n== {}\n", figure.title)), "{all}");
            for case in &figure.cases {
                assert!(all.contains(&case.title), "{all}");
            }
        }
        assert!(
            all.contains("reference") && all.contains("note: 1.8 < 2 & more"),
            "{all}"
        );
        assert_eq!(text(&results, Some("no case has this")), "");
    }

    #[test]
    fn a_machine_is_described_once() {
        let mut all = ["timestamp", "tap", "read"].map(sample_results);
        let here = all[0].machine.description();
        let page = html(&all).expect("drawn");
        assert_eq!(page.matches(&format!("<p>{here}</p>")).count(), 1);
        assert_eq!(page.matches(&here).count(), 1);
        all[1].machine.cpus += 1;
        let page = html(&all).expect("drawn");
        assert!(page.contains(&format!("<p>timestamp, read: {here}</p>")));
        assert!(page.contains(&format!("<p>tap: {}</p>", all[1].machine.description())));
    }

    #[test]
    fn the_page_is_well_formed_and_needs_nothing_from_elsewhere() {
        let page = html(&[sample_results("timestamp")]).expect("drawn");
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(&page, options).expect("well-formed");
        let tags = |name: &str| {
            let named = document
                .descendants()
                .filter(|node| node.tag_name().name() == name);
            named.count()
        };
        assert_eq!(tags("svg"), 2);
        assert_eq!((tags("script"), tags("link"), tags("img")), (0, 0, 0));
        let links = document
            .descendants()
            .filter_map(|node| node.attribute("href"));
        assert!(links.into_iter().all(|link| link.starts_with('#')));
        for text in [
            "1.8 &lt; 2 &amp; more", // Part of the sample's note.
            "absent",
            "1,800 cycles",
            "tcpdump version 4.99.3",
            "no difference shown",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }
}
