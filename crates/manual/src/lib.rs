//! Manual pages in roff: those of commands, and those made from a page in Markdown.
//!
//! A command's page has the options from its clap definition, as `--help` has them, and around them the parts
//! of a [`Page`] that are written by hand: description, examples, files, related pages. [`from_markdown`] turns a
//! page of `docs/` into one of section 7. The result depends only on the arguments: the date of a page is
//! passed in.
#![forbid(unsafe_code)]

mod command;
mod markdown;
mod options;
mod text;

use roff::{Roff, roman};

pub use command::{Example, Page, command};
pub use markdown::from_markdown;

/// The title line of a page, beside its name.
#[derive(Clone, Debug)]
pub struct Title<'a> {
    /// The section, such as `1`.
    pub section: &'a str,
    /// The date of the software, as `YYYY-MM-DD`.
    pub date: &'a str,
    /// The software and its version.
    pub source: &'a str,
}

/// The name of the manual that the pages belong to.
const MANUAL: &str = "ringtap manual";

/// Begins a page: its title line, and its name with a few words about it.
fn begin(name: &str, about: &str, title: &Title<'_>) -> Roff {
    let mut roff = Roff::new();
    let upper = name.to_uppercase();
    let line = [&upper, title.section, title.date, title.source, MANUAL];
    roff.control("TH", line);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {about}"))]);
    roff
}

/// Returns the UTC date of a time in seconds since the epoch, as `YYYY-MM-DD`.
#[must_use]
pub fn date(seconds: u64) -> String {
    // Days are counted from 0000-03-01: leap days are then the last ones of their years.
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_795_651_200, "2026-11-26"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(super::date(seconds), expected);
        }
    }
}
