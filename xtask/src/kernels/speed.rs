//! The speed of the taps beside tcpdump, in the same machine: `cargo xtask kernels --speed NAME…`.
//!
//! It runs a part of the benchmark `tap` in the machine and keeps the ratios: without KVM, times and rates say
//! nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::record::{self, FOLDER};
use super::table::KERNELS;
use crate::process;

const FILE: &str = "speed.json";
/// The line before the results in the output of the script.
const MARK: &str = "== results";
/// The words at the end of the benchmark's titles.
const AGAINST: &str = ", against tcpdump";

/// Builds the programs that run in the machine.
///
/// # Errors
/// The build fails.
pub(crate) fn build(repository: &Path) -> Result<(), String> {
    let mut command = process::cargo(repository);
    command.args(["build", "--release", "-p", "ringtap", "-p", "ringtap-bench"]);
    process::check(&mut command).map_err(|error| format!("the build of the benchmark: {error}"))
}

/// Returns the script that runs in the machine.
pub(crate) fn script(repository: &Path) -> String {
    let programs = repository.join("target/release");
    let programs = programs.display();
    format!(
        "export PATH=$PATH:/usr/sbin:/sbin\n\
         {programs}/ringtap-bench tap --quick --case '{AGAINST}' --ringtap {programs}/ringtap --out /run/speed\n\
         echo '{MARK}'\ncat /run/speed/tap.json\n"
    )
}

/// The ratios of a kernel, by capture: the smallest and the largest. A machine has time for one or two rounds, too few
/// for a median.
type Ratios = BTreeMap<String, [f64; 2]>;

/// Returns the ratios in the output of the script.
///
/// # Errors
/// The benchmark has ended early.
pub(crate) fn ratios(output: &str) -> Result<Ratios, String> {
    let results = output.split_once(MARK).map(|(_, results)| results);
    let results: Option<Value> = results.and_then(|text| serde_json::from_str(text).ok());
    let found = results.as_ref().and_then(|results| {
        let cases = results["figures"][0]["cases"].as_array()?;
        cases.iter().map(ratio).collect::<Option<Ratios>>()
    });
    found
        .filter(|found| !found.is_empty())
        .ok_or_else(|| format!("the benchmark has no results:\n{output}"))
}

fn ratio(case: &Value) -> Option<(String, [f64; 2])> {
    let title = case["title"].as_str()?.trim_end_matches(AGAINST);
    let ratios = case["contenders"][0]["ratios"][0].as_array()?;
    let mut ratios: Vec<f64> = ratios.iter().filter_map(Value::as_f64).collect();
    ratios.sort_by(f64::total_cmp);
    Some((title.to_owned(), [*ratios.first()?, *ratios.last()?]))
}

/// Keeps the ratios of a kernel.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn keep(repository: &Path, kernel: &str, ratios: &Ratios) -> Result<(), String> {
    let path = repository.join(FOLDER).join(FILE);
    let mut all = read(repository);
    all[kernel] = json!(ratios);
    record::save(&path, &all)
}

fn read(repository: &Path) -> Value {
    let text = fs::read_to_string(repository.join(FOLDER).join(FILE)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|_| json!({}))
}

/// Returns the table of all kernels whose ratios are kept; empty if there are none.
pub(crate) fn table(repository: &Path) -> String {
    let all = read(repository);
    let kernels: Vec<(&str, Ratios)> = KERNELS
        .iter()
        .filter_map(|kernel| {
            let ratios = serde_json::from_value(all[kernel.name].clone()).ok()?;
            Some((kernel.name, ratios))
        })
        .collect();
    if kernels.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = kernels.iter().map(|(name, _)| *name).collect();
    let mut text = format!(
        "\n### Speed beside tcpdump\n\nHow many times tcpdump's rate `ringtap dump` captures in the same emulated machine, \
         in one or two rounds (`cargo xtask kernels --speed NAME…`):\n\n| capture | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    let titles: std::collections::BTreeSet<&String> = kernels
        .iter()
        .flat_map(|(_, ratios)| ratios.keys())
        .collect();
    for title in titles {
        let cells = kernels.iter().map(|(_, ratios)| match ratios.get(title) {
            Some([first, last]) if last - first < 0.05 => format!("{last:.1}"),
            Some([first, last]) => format!("{first:.1}–{last:.1}"),
            None => "–".to_owned(),
        });
        let cells: Vec<String> = cells.collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {title} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_from_the_output_and_shown() {
        let output = r#"xdp: 5.2
== results
{"figures": [{"cases": [{"title": "xdp, steal, against tcpdump",
  "contenders": [{"ratios": [[3.0, 1.0, 2.0], []]}, {"ratios": []}]}]}]}"#;
        let found = ratios(output).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found["xdp, steal"], [1.0, 3.0]);
        assert!(ratios("killed").is_err());
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(table(folder.path()), "");
        fs::create_dir_all(folder.path().join(FOLDER)).unwrap_or_else(|error| panic!("{error}"));
        for kernel in ["6.12", "6.1"] {
            assert_eq!(keep(folder.path(), kernel, &found), Ok(()));
        }
        let table = table(folder.path());
        assert!(
            table.contains("| capture | 6.1 | 6.12 |\n|---|---|---|\n"),
            "{table}"
        );
        let row = "| xdp, steal | 1.0–3.0 | 1.0–3.0 |";
        assert!(table.contains(row), "{table}");
    }
}
