//! The harness: contenders take turns, so that anything that slows the machine slows all of them.

use std::time::{Duration, Instant};

use crate::results::{Case, Contender, Metric};
use crate::sample::{Sample, Verdict};

/// The number of rounds, and the deadline.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds, each with one run of every contender.
    pub rounds: usize,
    /// The number of rounds if all contenders have had the same first metric in every round so far.
    pub where_equal: usize,
    /// Whether everything runs once before the measurement.
    pub warm_up: bool,
    /// No round begins that would, judging by earlier ones, end after this time.
    pub deadline: Instant,
}

/// One value: round, contender, metric, value.
pub type Row = (usize, usize, usize, f64);

/// Runs a case: a warm-up, then rounds, every second one in reverse order. `measure` returns a
/// value for each metric. The first round always runs.
///
/// # Errors
/// Returns an error if a run fails or returns a different number of values than there are metrics.
pub fn run(
    title: &str,
    contenders: &[&str],
    reference: usize,
    metrics: usize,
    limits: Limits,
    mut measure: impl FnMut(usize) -> Result<Vec<f64>, String>,
) -> Result<(Case, Vec<Row>), String> {
    let mut checked = |who: usize| {
        let name = contenders.get(who).copied().unwrap_or_default();
        let values = measure(who).map_err(|reason| format!("{title}: {name}: {reason}"))?;
        if values.len() == metrics {
            return Ok(values);
        }
        let count = values.len();
        Err(format!(
            "{title}: {name}: {count} values, not one for each metric"
        ))
    };
    if limits.warm_up {
        for who in 0..contenders.len() {
            checked(who)?;
        }
    }
    let mut case = empty(title, contenders, reference, metrics);
    let mut rows = Vec::new();
    let mut longest = Duration::ZERO;
    for round in 0..limits.rounds {
        let begun = Instant::now();
        if round > 0 && begun + longest > limits.deadline
            || round >= limits.where_equal && all_equal(&case)
        {
            break;
        }
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut values = vec![Vec::new(); contenders.len()];
        for who in order {
            values[who] = checked(who)?;
        }
        take_in(&mut case, &values, round, &mut rows);
        longest = longest.max(begun.elapsed());
    }
    Ok((case, rows))
}

/// Returns whether all contenders have the same first metric in every round.
fn all_equal(case: &Case) -> bool {
    let same = |who| matches!(case.verdict(who, 0), None | Some(Verdict::Equal));
    case.contenders.len() > 1 && (0..case.contenders.len()).all(same)
}

fn empty(title: &str, contenders: &[&str], reference: usize, metrics: usize) -> Case {
    let contenders = contenders.iter().map(|name| Contender {
        name: (*name).to_owned(),
        samples: vec![Sample::default(); metrics],
        ratios: vec![Sample::default(); metrics],
    });
    Case {
        title: title.to_owned(),
        x: 0.0,
        contenders: contenders.collect(),
        reference,
    }
}

fn take_in(case: &mut Case, values: &[Vec<f64>], round: usize, rows: &mut Vec<Row>) {
    let reference = values.get(case.reference).cloned().unwrap_or_default();
    for (who, (contender, values)) in case.contenders.iter_mut().zip(values).enumerate() {
        for (metric, &value) in values.iter().enumerate() {
            contender.samples[metric].push(value);
            rows.push((round, who, metric, value));
            let base = reference.get(metric).copied().unwrap_or_default();
            if who != case.reference && base > 0.0 {
                contender.ratios[metric].push(value / base);
            }
        }
    }
}

/// Returns the table of a case: a line for each metric and contender.
#[must_use]
pub fn table(case: &Case, metrics: &[Metric]) -> String {
    let mut text = format!("\n{}\n", case.title);
    let reference = case.contenders.get(case.reference);
    let reference = reference.map_or("", |contender| contender.name.as_str());
    for (at, metric) in metrics.iter().enumerate() {
        text.push_str(&format!("  {}\n", metric.label()));
        for (who, contender) in case.contenders.iter().enumerate() {
            let value = contender.samples[at].show(metric.digits);
            let against = match case.verdict(who, at) {
                _ if case.contenders.len() < 2 => String::new(),
                None => "reference".to_owned(),
                Some(verdict) => against(&contender.ratios[at], verdict, reference),
            };
            let name = &contender.name;
            let line = format!("    {name:<32} {value:<30} {against}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Returns a ratio and the conclusion that it allows.
#[must_use]
pub fn against(ratio: &Sample, verdict: Verdict, reference: &str) -> String {
    let number = (!ratio.is_empty()).then(|| format!("{:.3}", ratio.median()));
    match (verdict, number) {
        (Verdict::Less | Verdict::More, Some(number)) => format!("{number} of {reference}"),
        // A ratio to zero does not exist.
        (Verdict::Less | Verdict::More, None) => format!("{} than {reference}", verdict.text()),
        (Verdict::Equal | Verdict::Open, Some(number)) => format!("{number}: {}", verdict.text()),
        (Verdict::Equal | Verdict::Open, None) => verdict.text().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rounds: usize) -> Limits {
        Limits {
            rounds,
            where_equal: rounds,
            warm_up: true,
            deadline: Instant::now() + Duration::from_secs(600),
        }
    }

    #[test]
    fn contenders_take_turns_after_a_warm_up() {
        let mut order = Vec::new();
        let (case, rows) = run("case", &["a", "b", "c"], 2, 1, limits(2), |who| {
            order.push(who);
            Ok(vec![[1.0, 2.0, 4.0][who]])
        })
        .expect("measured");
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 2, 1, 0]);
        assert_eq!(rows.len(), 6);
        assert!((case.contenders[0].ratios[0].median() - 0.25).abs() < 1e-9);
        assert!(case.contenders[2].ratios[0].is_empty());
        assert_eq!(case.verdict(0, 0), Some(Verdict::Less));
        assert_eq!(case.verdict(2, 0), None);
        assert!((case.worst_ratio(0).expect("a ratio") - 0.25).abs() < 1e-9);
        let text = table(&case, &[Metric::new("time", "s", 1)]);
        assert!(
            text.contains("time [s]") && text.contains("0.250 of c"),
            "{text}"
        );
        assert!(text.contains("2.0 (2.0–2.0)"), "{text}");
        let nothing = Sample::default();
        assert_eq!(against(&nothing, Verdict::More, "c"), "more than c");
        assert_eq!(against(&nothing, Verdict::Equal, "c"), "equal");
    }

    #[test]
    fn a_spread_that_swallows_the_difference_is_said() {
        // By round: 1.0 and 3.0 against 2.0 and 2.2.
        let values = [[1.0, 3.0], [2.0, 2.2]];
        let mut runs = [0, 0];
        let cold = Limits {
            warm_up: false,
            ..limits(2)
        };
        let (case, _) = run("case", &["a", "b"], 1, 1, cold, |who| {
            runs[who] += 1;
            Ok(vec![values[who][runs[who] - 1]])
        })
        .expect("measured");
        let text = table(&case, &[Metric::new("time", "s", 1)]);
        assert!(text.contains(": no difference shown"), "{text}");
    }

    #[test]
    fn rounds_end_at_the_deadline_after_one() {
        let late = Limits {
            deadline: Instant::now(),
            warm_up: false,
            ..limits(9)
        };
        let (case, _) = run("case", &["a"], 0, 1, late, |_| Ok(vec![1.0])).expect("measured");
        assert_eq!(case.contenders[0].samples[0].runs(), 1);
    }

    #[test]
    fn where_all_have_the_same_fewer_rounds_are_run() {
        let few = |values: [f64; 2]| {
            let limits = Limits {
                where_equal: 3,
                ..limits(5)
            };
            let measured = run("case", &["a", "b"], 1, 2, limits, |who| {
                Ok(vec![values[who], 1.0 + who as f64])
            });
            let (case, _) = measured.expect("measured");
            case.contenders[0].samples[0].runs()
        };
        assert_eq!(few([100.0, 100.0]), 3);
        assert_eq!(few([100.0, 99.0]), 5);
    }

    #[test]
    fn a_failed_run_is_an_error() {
        let failed = run(
            "case",
            &["a"],
            0,
            1,
            limits(1),
            |_| Err("broken".to_owned()),
        );
        assert_eq!(failed.expect_err("it fails"), "case: a: broken");
        let short = run("case", &["a"], 0, 2, limits(1), |_| Ok(vec![1.0]));
        assert!(short.expect_err("too few").contains("1 values"));
    }
}
