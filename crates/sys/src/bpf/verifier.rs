//! Turns the verifier's log into an error with the reason and the instruction.

use std::fmt;
use std::io;

/// Number of the log's last lines that an error shows.
const SHOWN_LINES: usize = 12;

/// A program that the verifier rejected.
#[derive(Debug, thiserror::Error)]
pub struct Rejection {
    /// The program's name.
    pub program: String,
    /// The kernel's error for the load: EINVAL, EACCES, E2BIG (too complex), …
    #[source]
    pub source: io::Error,
    /// The verifier's reason: the lines after the last instruction in the log.
    pub reason: String,
    /// Index of the rejected instruction (in instructions of 8 bytes).
    pub instruction: Option<usize>,
    /// The same instruction as the verifier prints it.
    pub statement: Option<String>,
    /// The last lines of the log, oldest first.
    pub last_lines: Vec<String>,
    /// Number of instructions that the verifier processed, if reported.
    pub processed: Option<u64>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the verifier rejects program {}: {}",
            self.program, self.reason
        )?;
        Ok(())
    }
}

impl Rejection {
    /// Returns the rejected instruction and the log's last lines, one line each.
    #[must_use]
    pub fn log(&self) -> String {
        let mut log = format!("the verifier on program {}:\n", self.program);
        if let Some(index) = self.instruction {
            let statement = self.statement.as_deref().unwrap_or_default();
            log.push_str(&format!("  at instruction {index}: {statement}\n"));
        }
        for line in &self.last_lines {
            log.push_str(&format!("    {line}\n"));
        }
        log
    }

    /// Parses a log of level 1 (with instructions) or of level 4 (the reason only).
    pub(super) fn from_log(program: &str, source: io::Error, log: &str) -> Self {
        let lines: Vec<&str> = log
            .lines()
            .map(str::trim_end)
            .filter(|l| !l.is_empty())
            .collect();
        let (summary, body): (Vec<&str>, Vec<&str>) =
            lines.iter().copied().partition(|line| is_summary(line));
        let last = body.iter().rposition(|line| statement(line).is_some());
        let behind = &body[last.map_or(0, |at| at + 1)..];
        let reason = reason(behind, &source);
        let named = reason
            .split_once("insn ")
            .and_then(|(_, rest)| leading_number(rest));
        let shown = last.and_then(|at| statement(body[at]));
        // A reason that names an instruction (`unreachable insn 5`) is more reliable.
        let (instruction, statement) = match (named, shown) {
            (Some(index), Some((at, text))) if index == at => (Some(index), Some(text)),
            (Some(index), _) => (Some(index), None),
            (None, Some((at, text))) => (Some(at), Some(text)),
            (None, None) => (None, None),
        };
        Self {
            program: program.to_owned(),
            source,
            reason,
            instruction,
            statement: statement.map(str::to_owned),
            last_lines: body[body.len().saturating_sub(SHOWN_LINES)..]
                .iter()
                .map(ToString::to_string)
                .collect(),
            processed: summary.iter().find_map(|line| {
                leading_number(line.strip_prefix("processed ")?).map(|count| count as u64)
            }),
        }
    }
}

fn reason(lines: &[&str], source: &io::Error) -> String {
    let told: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !is_trace(line))
        .collect();
    if told.is_empty() {
        source.to_string()
    } else {
        told.join("; ")
    }
}

/// Returns whether a line holds statistics, at the log's end.
fn is_summary(line: &str) -> bool {
    ["processed ", "verification time ", "stack depth "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Returns whether a line is about the verifier's path, not its result.
fn is_trace(line: &str) -> bool {
    let starts = [
        "func#",
        "from ",
        "mark_precise:",
        "last_idx",
        "parent state",
        "arg#",
        "regs=",
    ];
    starts
        .iter()
        .any(|start| line.trim_start().starts_with(start))
        || (leading_number(line).is_some() && line.contains(": R"))
        || line.starts_with(';')
}

/// Parses `12: (61) r2 = *(u32 *)(r1 +4)  ; R1=ctx()` into 12 and the text between number and
/// state.
fn statement(line: &str) -> Option<(usize, &str)> {
    let (index, rest) = line.split_once(": (")?;
    let index = index.parse().ok()?;
    let (_, text) = rest.split_once(") ")?;
    let text = text.split_once(" ; ").map_or(text, |(text, _)| text);
    Some((index, text.trim_end()))
}

fn leading_number(text: &str) -> Option<usize> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(log: &str) -> Rejection {
        Rejection::from_log("tap", io::Error::from_raw_os_error(libc::EACCES), log)
    }

    #[test]
    fn shows_the_instruction_and_the_reason() {
        let log = "0: R1=ctx() R10=fp0\n\
                   0: (61) r2 = *(u32 *)(r1 +4)          ; R1=ctx() R2_w=pkt_end()\n\
                   1: (71) r0 = *(u8 *)(r2 +0)\n\
                   R2 invalid mem access 'pkt_end'\n\
                   processed 2 insns (limit 1000000) max_states_per_insn 0\n";
        let rejection = rejection(log);
        assert_eq!(rejection.instruction, Some(1));
        assert_eq!(rejection.statement.as_deref(), Some("r0 = *(u8 *)(r2 +0)"));
        assert_eq!(rejection.reason, "R2 invalid mem access 'pkt_end'");
        assert_eq!(rejection.processed, Some(2));
        let text = rejection.to_string();
        assert!(
            text.contains("rejects program tap: R2 invalid mem access"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        let log = rejection.log();
        assert!(
            log.contains("at instruction 1: r0 = *(u8 *)(r2 +0)"),
            "{log}"
        );
        assert!(log.contains("R2 invalid mem access"), "{log}");
    }

    #[test]
    fn takes_the_instruction_from_the_reason() {
        let rejection = rejection("func#0 @0\nunreachable insn 5\nprocessed 0 insns\n");
        assert_eq!(rejection.instruction, Some(5));
        assert_eq!(rejection.statement, None);
        assert_eq!(rejection.reason, "unreachable insn 5");
    }

    #[test]
    fn falls_back_to_the_errno() {
        let rejection = rejection("");
        assert_eq!(rejection.instruction, None);
        assert!(
            rejection.reason.contains("ermission"),
            "{}",
            rejection.reason
        );
    }
}
