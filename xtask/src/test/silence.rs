//! Tests that would pass without having tested: the rule that a skip is counted.
//!
//! It finds two patterns. First, a test's body that returns early: bodies are functions marked `#[test]`, and
//! those that a suite lists, as in `test("name", needs, body)`. Second, a test that looks for a program by
//! itself and continues without it; after a need of that program, the search is followed by `expect`.

/// Returns line numbers, from 1, and the problem there. `bodies` are the names of functions that suites of
/// the same folder list.
pub(super) fn find(text: &str, bodies: &[String]) -> Vec<(usize, &'static str)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let name = function_name(lines[at]);
        let is_marked = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.trim_start().starts_with('#'))
            .any(|line| line.trim() == "#[test]");
        let Some(name) = name.filter(|name| is_marked || bodies.iter().any(|body| body == name))
        else {
            at += 1;
            continue;
        };
        debug_assert!(!name.is_empty());
        let end = end_of_body(&lines, at);
        for (number, line) in (at + 1..).zip(&lines[at..end]) {
            if returns_early(line) {
                found.push((number, "a test that returns early: name a Need"));
            }
        }
        at = end;
    }
    found
}

/// Searches for a program that are no `expect`, by their lines.
pub(super) fn find_searches(text: &str) -> Vec<(usize, &'static str)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let statement = || {
            lines[at..]
                .iter()
                .take(3)
                .any(|line| line.contains(".expect("))
        };
        if code_calls_find_tool(line) && !statement() {
            found.push((at + 1, "a test that does without a program: name a Need"));
        }
    }
    found
}

/// Returns the names of functions that a suite lists: the last word of each call of `test`.
pub(super) fn bodies(text: &str) -> Vec<String> {
    let calls = text.split("test(").skip(1);
    calls.filter_map(body).collect()
}

/// Returns the third argument, if it is a path.
fn body(call: &str) -> Option<String> {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut arguments = vec![String::new()];
    for character in call.chars() {
        match character {
            '"' => in_text = !in_text,
            '(' | '[' | '{' if !in_text => depth += 1,
            ')' if !in_text && depth == 0 => break,
            ')' | ']' | '}' if !in_text => depth = depth.saturating_sub(1),
            ',' if !in_text && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut()?.push(character);
    }
    let path = arguments.get(2)?.trim();
    let is_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
    (!path.is_empty() && path.chars().all(is_path))
        .then(|| path.rsplit("::").next().unwrap_or(path).to_owned())
}

fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_start = before
        .split_whitespace()
        .all(|word| word.starts_with("pub") || matches!(word, "unsafe" | "extern" | "\"C\""));
    let end = rest.find(['(', '<'])?;
    is_start.then(|| &rest[..end])
}

/// Returns the line after the one that closes the function, by rustfmt's indentation.
fn end_of_body(lines: &[&str], start: usize) -> usize {
    let indentation = lines[start].len() - lines[start].trim_start().len();
    let close = format!("{}}}", " ".repeat(indentation));
    let length = lines[start..].iter().position(|line| *line == close);
    length.map_or(lines.len(), |length| start + length + 1)
}

fn returns_early(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default().trim();
    ["return;", "return Ok(());"]
        .iter()
        .any(|early| code.ends_with(early))
        || code.contains("{ return }")
}

fn code_calls_find_tool(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains("find_tool(") && !code.contains("fn find_tool(")
}

#[cfg(test)]
mod tests {
    use super::{bodies, find, find_searches};

    const SUITE: &str = "\
fn main() -> ExitCode {
    suite(vec![
        test(\"a, b\", &[Need::Root, Need::Kernel(6, 6)], part::listed),
        test(
            \"c\",
            needs,
            other,
        ),
        test(\"d\", &[], || helper(1)),
    ])
}
";

    #[test]
    fn bodies_are_those_that_are_listed() {
        assert_eq!(bodies(SUITE), ["listed", "other"]);
    }

    #[test]
    fn early_returns_are_found_in_tests_only() {
        // Put together here, so that this file does not find itself.
        let text = &"\
fn helper() {
    BACK;
}

pub(crate) fn listed() {
    let Some(x) = y() else {
        BACK;
    };
}

mod tests {
    #[test]
    fn marked() {
        if z() { BACK }
        let f = || 1;
    }

    fn other() {
        BACK Ok(());
    }
}
"
        .replace("BACK", "return");
        let lines = |bodies: &[&str]| {
            let bodies: Vec<String> = bodies.iter().map(ToString::to_string).collect();
            let found = find(text, &bodies).into_iter();
            found.map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(lines(&[]), [14]);
        assert_eq!(lines(&["listed", "other"]), [7, 14, 19]);
    }

    #[test]
    fn programs_are_needed_or_expected() {
        let good = "let tool = find_tool(name)\n    .expect(\"a need\");\n";
        assert!(find_searches(good).is_empty());
        let bad = "let is_there = find_tool(\"ping\").is_some();\n";
        assert_eq!(find_searches(bad).len(), 1);
    }
}
