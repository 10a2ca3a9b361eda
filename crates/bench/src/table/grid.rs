//! A table of an experiment's cases.

use serde::Deserialize;

use crate::goals::{Goal, is_own};
use crate::results::{Case, Contender, Figure, Metric, Results};
use crate::sample::{Sample, Verdict};

/// The definition of a table: which results of an experiment it shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    pub(super) experiment: String,
    form: Form,
    /// Titles of figures; all of them if empty.
    #[serde(default)]
    figures: Vec<String>,
    /// Texts, one of which a case's title contains; all cases if empty.
    #[serde(default)]
    cases: Vec<String>,
    /// Names of contenders; all of them if empty.
    #[serde(default)]
    who: Vec<String>,
    metrics: Vec<String>,
    /// Whether ratios to the reference are shown, in [`Form::Contenders`].
    #[serde(default)]
    ratios: bool,
    /// The name of the goal, which is judged by the first metric.
    goal: Option<String>,
    /// Whether the experiment's notes are shown below.
    #[serde(default)]
    notes: bool,
}

/// The layout of rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// A row for each case, with the first contender, the reference, and the ratio of the first metric.
    Versus,
    /// A row for each case, a column for each contender, of one metric.
    Contenders,
    /// A row for each contender of each case, a column for each metric.
    Metrics,
}

/// Cells; the first row is the head.
type Cells = Vec<Vec<String>>;

impl Grid {
    /// Checks that the definition can be shown.
    pub(super) fn check(&self) -> Result<(), String> {
        let one = self.metrics.len() == 1;
        let is_right = match self.form {
            Form::Contenders => one,
            Form::Metrics => !self.metrics.is_empty() && !self.ratios && self.goal.is_none(),
            Form::Versus => !self.metrics.is_empty() && !self.ratios && self.who.is_empty(),
        };
        if !is_right {
            return Err(format!("{:?}: other fields are needed", self.form));
        }
        self.goal().map(|_| ())
    }

    fn goal(&self) -> Result<Option<Goal>, String> {
        let goal = self.goal.as_deref().map(|name| {
            Goal::named(name).ok_or_else(|| format!("there is no goal with the name {name}"))
        });
        goal.transpose()
    }

    /// Returns the table, below a line that describes it.
    pub(super) fn markdown(&self, all: &[Results]) -> Result<String, String> {
        if all.is_empty() {
            return Err("there are no results".to_owned());
        }
        self.check()?;
        let found = all.iter().find(|one| one.experiment == self.experiment);
        let shown = found.map(|results| self.of(results)).transpose()?.flatten();
        Ok(shown.unwrap_or_else(|| format!("Not or not wholly measured: {}.\n", self.experiment)))
    }

    /// Returns the table of its experiment's results; `None` if they lack its data.
    fn of(&self, results: &Results) -> Result<Option<String>, String> {
        let is_wanted = |figure: &&Figure| {
            let title = &figure.title;
            self.figures.is_empty() || self.figures.iter().any(|wanted| wanted == title)
        };
        let figures: Vec<&Figure> = results.figures.iter().filter(is_wanted).collect();
        let shown = figures.iter().map(|figure| Shown::of(self, figure));
        let shown: Option<Vec<Shown<'_>>> = shown.collect();
        let Some(shown) = shown.filter(|shown| shown.iter().any(|one| !one.cases.is_empty()))
        else {
            return Ok(None);
        };
        let goal = self.goal()?;
        let cells = match self.form {
            Form::Versus => versus(&shown, goal),
            Form::Contenders => self.contenders(&shown, goal),
            Form::Metrics => self.each_metric(&shown),
        };
        let kind = if results.quick { ", a short run" } else { "" };
        let mut text = format!("`{}`{kind}{}:\n\n", results.experiment, self.what(&shown));
        text += &lines(&cells);
        if self.notes && !results.notes.is_empty() {
            text += "\n";
            text.extend(results.notes.iter().map(|note| format!("- {note}\n")));
        }
        Ok(Some(text))
    }

    /// Returns the figure's and the metric's name if the head does not contain them.
    fn what(&self, shown: &[Shown<'_>]) -> String {
        let mut text = String::new();
        if let [one] = shown {
            text += &format!(", *{}*", one.figure.title);
        }
        if let (false, Some(first)) = (self.form == Form::Metrics, shown.first()) {
            let labels: Vec<String> = first.metrics().map(Metric::label).collect();
            text += &format!(": {}", labels.join(", "));
        }
        text
    }

    fn contenders(&self, shown: &[Shown<'_>], goal: Option<Goal>) -> Cells {
        let first = shown.iter().find_map(|one| one.cases.first());
        let Some(names) = first.map(|case| self.names(case)) else {
            return Vec::new();
        };
        let reference = |name: &str| {
            let mut cases = shown.iter().flat_map(|one| &one.cases);
            cases.any(|case| case.contenders[case.reference].name == name)
        };
        let mut head = vec![first_head(shown)];
        for name in &names {
            head.push(name.clone());
            if self.ratios && !reference(name) {
                head.push("ratio".to_owned());
            }
        }
        head.extend(goal.map(Goal::text));
        let mut cells = vec![head];
        for (one, case) in each(shown) {
            let (at, digits) = one.at[0];
            let mut row = vec![one.title(case, shown.len())];
            for name in &names {
                let who = case.place(name);
                let value = who.map(|who| short(&case.contenders[who].samples[at], digits));
                row.push(value.unwrap_or_else(|| "–".to_owned()));
                if self.ratios && !reference(name) {
                    row.push(who.map_or_else(String::new, |who| ratio(case, who, at)));
                }
            }
            row.extend(goal.map(|goal| judged(goal, case, at)));
            cells.push(row);
        }
        cells
    }

    fn each_metric(&self, shown: &[Shown<'_>]) -> Cells {
        let several = each(shown).count() > 1;
        let mut rows: Cells = Vec::new();
        let mut alone = true;
        for (one, case) in each(shown) {
            for (row, name) in self.names(case).iter().enumerate() {
                let Some(who) = case.place(name) else {
                    continue;
                };
                alone &= row == 0;
                let title = if row == 0 {
                    one.title(case, shown.len())
                } else {
                    String::new()
                };
                let mut cells = vec![title, name.clone()];
                let values = one.at.iter().map(|&(at, digits)| {
                    let sample = case.contenders[who].samples.get(at);
                    sample.map_or_else(String::new, |sample| short(sample, digits))
                });
                cells.extend(values);
                rows.push(cells);
            }
        }
        let labels = shown.iter().take(1).flat_map(Shown::metrics);
        let mut head = vec![first_head(shown), String::new()];
        head.extend(labels.map(Metric::label));
        rows.insert(0, head);
        // A column with the same value in each row is removed.
        for row in &mut rows {
            if alone {
                row.remove(1);
            }
            if !several {
                row.remove(0);
            }
        }
        rows
    }

    fn names(&self, case: &Case) -> Vec<String> {
        if !self.who.is_empty() {
            return self.who.clone();
        }
        let names = case.contenders.iter().map(|who| who.name.clone());
        names.collect()
    }
}

/// The part of a figure that is shown.
struct Shown<'a> {
    figure: &'a Figure,
    cases: Vec<&'a Case>,
    /// The indices of metrics, with their digits.
    at: Vec<(usize, usize)>,
}

impl<'a> Shown<'a> {
    /// Returns `None` if a metric is missing.
    fn of(grid: &Grid, figure: &'a Figure) -> Option<Self> {
        let find = |name: &String| {
            let at = figure.metric(name)?;
            Some((at, figure.metrics[at].digits))
        };
        let is_wanted = |case: &&Case| {
            let title = &case.title;
            grid.cases.is_empty() || grid.cases.iter().any(|text| title.contains(text))
        };
        Some(Self {
            figure,
            cases: figure.cases.iter().filter(is_wanted).collect(),
            at: grid.metrics.iter().map(find).collect::<Option<_>>()?,
        })
    }

    fn metrics(&self) -> impl Iterator<Item = &'a Metric> {
        self.at.iter().map(|&(at, _)| &self.figure.metrics[at])
    }

    /// Returns a case's title, without the figure's title if that is shown already.
    fn title(&self, case: &Case, figures: usize) -> String {
        let rest = case.title.strip_prefix(&self.figure.title);
        let rest = rest.and_then(|rest| rest.strip_prefix(", "));
        match rest.filter(|_| figures == 1) {
            Some(rest) => rest.trim().to_owned(),
            None => case.title.trim().to_owned(),
        }
    }
}

fn versus(shown: &[Shown<'_>], goal: Option<Goal>) -> Cells {
    let mut head = vec![first_head(shown), "ringtap".to_owned()];
    head.extend(["against", "ratio"].map(str::to_owned));
    head.extend(goal.map(Goal::text));
    let mut cells = vec![head];
    for (one, case) in each(shown) {
        let values = |contender: &Contender| {
            let at = one.at.iter();
            let values = at.map(|&(at, digits)| short(&contender.samples[at], digits));
            values.collect::<Vec<_>>().join(", ")
        };
        let (Some(own), reference) = (case.contenders.first(), &case.contenders[case.reference])
        else {
            continue;
        };
        let (at, _) = one.at[0];
        let mut row = vec![
            one.title(case, shown.len()),
            values(own),
            format!("{}: {}", reference.name, values(reference)),
            ratio(case, 0, at),
        ];
        let judged = goal.and_then(|goal| goal.judge(case, 0, at));
        row.extend(judged.map(str::to_owned));
        cells.push(row);
    }
    cells
}

/// Returns all cases of all figures.
fn each<'s, 'a>(shown: &'s [Shown<'a>]) -> impl Iterator<Item = (&'s Shown<'a>, &'a Case)> {
    shown
        .iter()
        .flat_map(|one| one.cases.iter().map(move |case| (one, *case)))
}

fn first_head(shown: &[Shown<'_>]) -> String {
    match shown {
        [one] => one.figure.x.label(),
        _ => "case".to_owned(),
    }
}

/// Returns the median, with the range if it is visible.
fn short(sample: &Sample, digits: usize) -> String {
    let [least, most] = [sample.least(), sample.most()].map(|value| format!("{value:.digits$}"));
    if least == most && !sample.is_empty() {
        least
    } else {
        sample.show(digits)
    }
}

/// Returns the ratio to the reference with its range, and whether it shows a difference.
fn ratio(case: &Case, who: usize, metric: usize) -> String {
    let number = case.ratio(who, metric).map(|ratio| short(ratio, 2));
    match (case.verdict(who, metric), number) {
        (Some(Verdict::Less | Verdict::More), Some(number)) => number,
        (Some(Verdict::Open), Some(number)) => format!("{number}, {}", Verdict::Open.text()),
        (Some(verdict), _) => verdict.text().to_owned(),
        (None, _) => String::new(),
    }
}

/// Returns how each variant of ringtap met a goal.
fn judged(goal: Goal, case: &Case, metric: usize) -> String {
    let own = case.contenders.iter().enumerate();
    let own = own.filter(|(_, contender)| is_own(contender));
    let judged = own.filter_map(|(who, one)| Some((&one.name, goal.judge(case, who, metric)?)));
    let judged: Vec<(&String, &str)> = judged.collect();
    match judged.split_first() {
        None => String::new(),
        Some(((_, first), rest)) if rest.iter().all(|(_, one)| one == first) => (*first).to_owned(),
        _ => {
            let each = judged.iter().map(|(name, one)| format!("{name}: {one}"));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Returns the cells as Markdown.
fn lines(cells: &Cells) -> String {
    let mut text = String::new();
    for (at, row) in cells.iter().enumerate() {
        let row: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text += &format!("| {} |\n", row.join(" | "));
        if at == 0 {
            text += &format!("{}|\n", "|---".repeat(row.len()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Grid;
    use crate::results::sample_results;

    fn shown(data: &str) -> String {
        let grid: Grid = toml::from_str(data).expect("the data");
        grid.markdown(&[sample_results("live")]).expect("a table")
    }

    #[test]
    fn the_first_stands_against_the_reference() {
        let text = shown(
            "experiment = 'live'\nform = 'versus'\nfigures = ['Over sizes']\nmetrics = ['rate', 'lost']\ngoal = 'flow'\n",
        );
        let head = "`live`, a short run, *Over sizes*: rate [million packets/s], lost [packets]:\n\n\
                    | frame [bytes] | ringtap | against | ratio | goal: at most 0.20 |\n|---|---|---|---|---|\n";
        assert!(text.starts_with(head), "{text}");
        let row = "| 64 bytes | 4.27 (4.06–4.47), 0 | tcpdump: 2.10 (2.00–2.20), 0 | \
                   2.10 (2.00–2.20) | missed |\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn a_column_for_each_contender_or_metric() {
        let text = shown(
            "experiment = 'live'\nform = 'contenders'\nmetrics = ['rate']\nratios = true\n\
             who = ['tcpdump', 'a third', 'nobody']\ncases = ['1500']\ngoal = 'no peer above'\n",
        );
        assert!(
            text.contains(
                "| case | tcpdump | a third | ratio | nobody | ratio | goal: no peer above |"
            ),
            "{text}"
        );
        assert!(text.contains("| 1500 bytes | 2.10 (2.00–2.20) | 2.21 (2.10–2.31) | 1.05 (1.00–1.10), no difference shown | – |  | reached |"), "{text}");
        let text = shown(
            "experiment = 'live'\nform = 'metrics'\nfigures = ['By name']\nmetrics = ['lost', 'rate']\n\
             who = ['tcpdump']\nnotes = true\n",
        );
        let whole = "`live`, a short run, *By name*:\n\n| engine | lost [packets] | rate [million packets/s] |\n|---|---|---|\n\
                     | 64 bytes | 0 | 2.10 (2.00–2.20) |\n| 1500 bytes | 0 | 2.10 (2.00–2.20) |\n\n- 1.8 < 2 & more\n";
        assert_eq!(text, whole);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let missing = "Not or not wholly measured: tap.\n";
        assert_eq!(
            shown("experiment = 'tap'\nform = 'versus'\nmetrics = ['rate']\n"),
            missing
        );
        let text = shown("experiment = 'live'\nform = 'versus'\nmetrics = ['delay']\n");
        assert_eq!(text, missing.replace("tap", "live"));
        let grid: Grid =
            toml::from_str("experiment = 'live'\nform = 'contenders'\nmetrics = ['a', 'b']\n")
                .expect("the data");
        assert!(grid.check().is_err());
    }
}
