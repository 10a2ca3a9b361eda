//! Tables of measured figures in documents, made from results: each stands between two marks that
//! name it, so that no figure is copied by hand.

mod grid;
mod rows;

use std::collections::BTreeMap;

use crate::results::Results;
use grid::Grid;
pub use rows::markdown;

/// What each table shows, by its name.
const DATA: &str = include_str!("../../data/tables.toml");
/// How a mark begins.
const OPEN: &str = "<!-- measured ";

/// Whether a document has tables of measured figures.
#[must_use]
pub fn is_in(document: &str) -> bool {
    document.contains(OPEN)
}

/// A document with each of its tables as the results have it now.
///
/// # Errors
/// There are no results; a mark is damaged, or names no table.
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
        // What begins no paragraph of its own would not be a table.
        let space = if old.starts_with('\n') { "\n" } else { "" };
        text += &format!("{before}{OPEN}{mark}-->\n{space}{new}{space}{end}");
        rest = behind;
    }
    Ok(text + rest)
}

/// One table.
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

    /// Names of experiments, figures and metrics that nothing has would leave tables empty.
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
