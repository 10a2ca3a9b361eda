//! Tables of measured values in documents. Each table stands between two marks with its name and is
//! generated from the results, so that no value is copied by hand.

mod grid;
mod rows;

use std::collections::BTreeMap;

use crate::results::Results;
use grid::Grid;
pub use rows::markdown;

/// The definition of each table, by its name.
const DATA: &str = include_str!("../../data/tables.toml");
/// The beginning of a mark.
const OPEN: &str = "<!-- measured ";

/// Returns whether a document has tables of measured values.
#[must_use]
pub fn is_in(document: &str) -> bool {
    document.contains(OPEN)
}

/// Returns a document with each of its tables generated from the results.
///
/// # Errors
/// Returns an error if there are no results, or if a mark is damaged or names no table.
pub fn filled(document: &str, all: &[Results]) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), document);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let begun = after.split_once(": begin").zip(after.split_once("-->\n"));
        let ((name, _), (mark, inside)) = begun.ok_or("a mark does not begin a table")?;
        let end = format!("{OPEN}{name}: end -->");
        let (old, behind) = inside
            .split_once(&end)
            .filter(|(old, _)| !is_in(old))
            .ok_or_else(|| format!("the table {name} has no end"))?;
        let new = table(name, all).map_err(|reason| format!("the table {name}: {reason}"))?;
        // A table must begin a paragraph of its own.
        let space = if old.starts_with('\n') { "\n" } else { "" };
        text += &format!("{before}{OPEN}{mark}-->\n{space}{new}{space}{end}");
        rest = behind;
    }
    Ok(text + rest)
}

/// Returns one table.
fn table(name: &str, all: &[Results]) -> Result<String, String> {
    match name {
        "readme" => rows::markdown(all),
        "machine" => rows::machine(all),
        _ => grids()?
            .remove(name)
            .ok_or("there is no such table")?
            .markdown(all),
    }
}

fn grids() -> Result<BTreeMap<String, Grid>, String> {
    toml::from_str(DATA).map_err(|error| format!("the tables' data: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{filled, grids, is_in};
    use crate::results::sample_results;

    #[test]
    fn tables_go_between_their_marks() {
        let results = [sample_results("live")];
        let document =
            "a\n<!-- measured machine: begin; of x -->\nold\n<!-- measured machine: end -->\nb\n";
        let new = filled(document, &results).expect("filled");
        assert!(
            is_in(&new)
                && new.starts_with("a\n<!-- measured machine: begin; of x -->\nMeasured on 20")
        );
        assert!(
            new.ends_with(".\n<!-- measured machine: end -->\nb\n"),
            "{new}"
        );
        assert_eq!(filled(&new, &results).as_deref(), Ok(new.as_str()));
        assert_eq!(filled("a", &results).as_deref(), Ok("a"));
        assert!(!is_in("a"));
        for damaged in [
            "<!-- measured machine: begin -->\n",
            "<!-- measured machine: end -->\n",
            "<!-- measured unknown: begin -->\n<!-- measured unknown: end -->",
            "<!-- measured machine: begin -->\n<!-- measured readme: begin -->\n<!-- measured machine: end -->",
        ] {
            assert!(filled(damaged, &results).is_err(), "{damaged}");
        }
        assert!(filled(document, &[]).is_err());
    }

    /// Unknown names of experiments, figures and metrics would leave tables empty.
    #[test]
    fn every_table_is_of_an_experiment() {
        let grids = grids().expect("the data");
        assert!(!grids.is_empty());
        for (name, grid) in grids {
            let known = crate::names().any(|(known, _)| known == grid.experiment);
            assert!(known, "{name}: {}", grid.experiment);
            assert_eq!(grid.check(), Ok(()), "{name}");
        }
    }
}
