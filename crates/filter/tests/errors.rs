//! Checks that errors name the right place (`testdata/filter/errors.txt`), and their text.

use std::path::Path;

use ringtap_filter::{CompileError, CompileOptions, ErrorKind, LinkType, Tables, compile, limits};

fn error(expression: &str) -> CompileError {
    let options = CompileOptions::new(LinkType::ETHERNET);
    match compile(expression, &options, &Tables::new()) {
        Ok(_) => panic!("{expression:?} is accepted"),
        Err(error) => error,
    }
}

#[test]
fn places_kinds_and_hints() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/filter/errors.txt");
    let text = std::fs::read_to_string(file).expect("the list of errors");
    let mut wrong = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.splitn(3, " | ");
        let mut field = || {
            fields
                .next()
                .unwrap_or_else(|| panic!("three fields in {line:?}"))
        };
        let (place, kind, expression) = (field(), field(), field());
        let error = error(expression);
        let full = format!("{:?}", error.kind);
        let name: String = full
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        let hint = error.hint.map(|hint| format!(" / {hint:?}"));
        let found = (
            format!("{:?}", error.span),
            name.clone() + &hint.clone().unwrap_or_default(),
        );
        // A hint that the list does not require is allowed.
        if found.0 != place || (found.1 != kind && name != kind) {
            wrong.push(format!("{} | {} | {expression}", found.0, found.1));
        }
    }
    assert!(wrong.is_empty(), "found instead:\n{}", wrong.join("\n"));
}

#[test]
fn rendered_with_the_place_marked() {
    let expression = "ip and (tcp port 80 or host";
    let text = error(expression).render(expression);
    assert_eq!(
        text,
        "the expression ends where more is expected\n  \
         ip and (tcp port 80 or host\n  \
         \u{20}                          ^\n\
         expected: a name, an address, a number, (, not"
    );
    let expression = "host fée or tcp.port == 80";
    let text = error(expression).render(expression);
    assert!(text.ends_with("\n        ^"), "{text}");
}

/// Only the text around the place is shown of a long expression.
#[test]
fn long_lines_are_cut() {
    let expression = format!("{} port", "ip or ".repeat(5000));
    let text = error(&expression).render(&expression);
    assert!(
        text.lines().all(|line| line.chars().count() < 200),
        "{text}"
    );
}

#[test]
fn bounds_are_errors() {
    let deep = format!("{}ip{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(kind(&deep), "TooDeep"), "{}", kind(&deep));
    let deep = format!("{}1 = 1", "(".repeat(100_000));
    assert_eq!(kind(&deep), "TooDeep");
    let deep = format!("{}1{} = 1", "- ".repeat(100_000), "");
    assert_eq!(kind(&deep), "TooDeep");
    let deep = format!("{}0{} = 1", "ip[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(kind(&deep), "TooDeep");
    let deep = format!("1{} = 1", " % 3".repeat(100_000));
    assert_eq!(kind(&deep), "TooDeep");
    let long = format!("1{} = 1", " + len".repeat(100_000));
    assert_eq!(kind(&long), "TooLarge");
    let long = "a".repeat(limits::EXPRESSION + 1);
    assert_eq!(kind(&long), "TooLong");
    let hosts: Vec<String> = (0..20_000)
        .map(|n| format!("1.2.{}.{}", n / 256, n % 256))
        .collect();
    assert_eq!(kind(&format!("host {}", hosts.join(" or "))), "TooLarge");
    assert_eq!(
        kind(&format!("ip host {}", hosts[..2000].join(" or "))),
        "accepted"
    );
    let turns = format!("{}ip", "tcp or not udp and ".repeat(50_000));
    assert_eq!(kind(&turns), "TooLarge");
    let ports = |n: usize| format!("port {n} or not net 10.{}/16 and ", n % 256);
    let turns: String = (0..20_000).map(ports).collect();
    assert_eq!(kind(&(turns + "ip")), "TooLarge");
    let values: Vec<String> = (0..30_000).map(|n| format!("ip[{n}] = 1")).collect();
    assert_eq!(kind(&values.join(" or ")), "TooLarge");
    let negated = format!("{}ip", "not ".repeat(100_000));
    assert_eq!(kind(&negated), "accepted");
}

fn kind(expression: &str) -> &'static str {
    match compile(
        expression,
        &CompileOptions::new(LinkType::ETHERNET),
        &Tables::new(),
    ) {
        Ok(_) => "accepted",
        Err(error) => match error.kind {
            ErrorKind::TooDeep(_) => "TooDeep",
            ErrorKind::TooLong(_) => "TooLong",
            ErrorKind::TooLarge => "TooLarge",
            _ => "another error",
        },
    }
}
