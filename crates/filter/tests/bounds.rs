//! Expressions as long as allowed: an error or a program, whatever they join, and no deeper recursion
//! than the language's nesting.
#![forbid(unsafe_code)]

use ringtap_filter::{CompileOptions, ErrorKind, LinkType, Tables, compile, limits};

/// A thread's stack that chains of conditions must not fill.
const STACK_BYTES: usize = 1 << 20;

/// `unit` as often as an expression can hold it, joined by `join`.
fn longest(unit: &str, join: &str) -> String {
    let count = limits::EXPRESSION / (unit.len() + join.len());
    vec![unit; count].join(join)
}

/// The error of an expression, compiled on a small stack.
fn refusal(expression: String, optimize: bool) -> Option<ErrorKind> {
    let compiling = move || {
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.optimize = optimize;
        let program = compile(&expression, &options, &Tables::new());
        program.err().map(|error| error.kind)
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let result = thread.spawn(compiling).expect("a thread").join();
    result.expect("no panic")
}

#[test]
fn chains_of_every_kind_are_bounded() {
    let units = [
        ("ip and tcp", " or "),
        ("ip or tcp", " and "),
        ("vlan", " and "),
        ("mpls 5", " or "),
        ("protochain 6", " or "),
        ("decnet host 1.2", " or "),
    ];
    for (unit, join) in units {
        for optimize in [false, true] {
            let refused = refusal(longest(unit, join), optimize);
            let expected = matches!(
                refused,
                Some(ErrorKind::TooLarge | ErrorKind::TooManyTurns(_))
            );
            assert!(expected, "{unit}{join}, optimised {optimize}: {refused:?}");
        }
    }
}

/// Lists that programs write: as long as the program allows, whatever is in parentheses.
#[test]
fn pairs_in_parentheses_may_be_many() {
    let pair = |n: usize| format!("(src host 10.0.{}.{} and tcp port {n})", n / 250, n % 250);
    let pairs = |count: usize| (1..=count).map(pair).collect::<Vec<_>>();
    for (join, count) in [(" or ", 1500), (" or not ", 1500)] {
        assert_eq!(refusal(pairs(count).join(join), true), None, "{join}");
    }
    let alternating = |count: usize| vec!["ip and tcp or udp"; count].join(" and ");
    assert_eq!(
        refusal(alternating(limits::ALTERNATIONS / 2 - 1), true),
        None
    );
    assert_eq!(
        refusal(alternating(limits::ALTERNATIONS), true),
        Some(ErrorKind::TooManyTurns(limits::ALTERNATIONS))
    );
}

/// Each tunnel needs memory of its own, of which there is little.
#[test]
fn chains_of_tunnels_are_bounded() {
    for (unit, join) in [("geneve and ip", " or "), ("vxlan 5", " and ")] {
        let refused = refusal(longest(unit, join), true);
        assert!(refused.is_some(), "{unit}{join}");
    }
}
