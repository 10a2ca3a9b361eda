//! Expressions as long as allowed: an error or a program, whatever they join, and no deeper recursion
//! than the language's nesting.
#![forbid(unsafe_code)]

use ringtap_filter::search::{Key, need};
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
    on_small_stack(move || {
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.optimize = optimize;
        let program = compile(&expression, &options, &Tables::new());
        program.err().map(|error| error.kind)
    })
}

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let result = thread.spawn(work).expect("a thread").join();
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
            assert_eq!(
                refused,
                Some(ErrorKind::TooLarge),
                "{unit}{join}, optimised {optimize}"
            );
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
}

/// Chains in which `and` and `or` take turns all the time, as far as the program allows.
#[test]
fn turns_may_be_many() {
    const TERMS: u32 = 10_000;
    let joined = |n: u32| match n % 2 {
        0 => format!(" or len = {n}"),
        _ => format!(" and not len = {}", n / 3),
    };
    let chain: String = (1..TERMS).map(joined).collect();
    let expression = format!("len = 0{chain}");
    let programs = on_small_stack(move || {
        [false, true].map(|optimize| {
            let mut options = CompileOptions::new(LinkType::ETHERNET);
            options.optimize = optimize;
            compile(&expression, &options, &Tables::new()).expect("a program")
        })
    });
    for len in (0..TERMS).step_by(37) {
        let accepts = (1..TERMS).fold(len == 0, |before, n| match n % 2 {
            0 => before || len == n,
            _ => before && len != n / 3,
        });
        for program in &programs {
            assert_eq!(program.run(&[], len) != 0, accepts, "{len}");
        }
    }
}

/// What a search for packets needs is forgotten where it would be too deep.
#[test]
fn needs_are_no_deeper_than_the_stack() {
    let unit = "host 10.0.0.1 or port 7 and not host 10.0.0.2 or not port 8 and ";
    for expression in [
        format!("{}port 7", unit.repeat(limits::EXPRESSION / unit.len() - 1)),
        longest(
            "(port 9 and (port 8 or (port 7 and not host 10.0.0.1)))",
            " or ",
        ),
    ] {
        on_small_stack(move || {
            let need = need(&expression, false, &Tables::new()).expect("valid");
            assert!(need.is_met_by(&[Key::Port(7), Key::Port(8), Key::Port(9)]));
            assert!(!need.is_met_by(&[Key::Ip4(1)]));
        });
    }
}

/// Each tunnel needs memory of its own, of which there is little.
#[test]
fn chains_of_tunnels_are_bounded() {
    for (unit, join) in [("geneve and ip", " or "), ("vxlan 5", " and ")] {
        let refused = refusal(longest(unit, join), true);
        assert!(refused.is_some(), "{unit}{join}");
    }
}

/// A few letters name 256 protocols: those of a range are not made tests before they are counted.
#[test]
fn ranges_of_protocols_are_bounded() {
    let mut options = CompileOptions::new(LinkType::ETHERNET);
    options.extensions = true;
    let kind = |expression: &str| {
        let program = compile(expression, &options, &Tables::new());
        program.err().map(|error| error.kind)
    };
    let same = longest("0-255", ",");
    assert_eq!(
        kind(&format!("ip proto in {{ {} }}", &same[..same.len() - 40])),
        None
    );
    let sparse: Vec<String> = (0..60_000)
        .map(|n| format!("{}-{}", n * 300, n * 300 + 255))
        .collect();
    let sparse = format!("ether proto in {{ {} }}", sparse.join(","));
    assert!(kind(&sparse).is_some());
    let sets = longest("ether proto in { 1537-1792 }", " or ");
    assert_eq!(kind(&sets), Some(ErrorKind::TooLarge));
}

/// Text that is no language, as long as allowed: looked at once, not again from each of its characters.
#[test]
fn rows_of_one_character_are_refused() {
    let rows = [
        ":", "::1:", ": ", "a", "0", "1.", "1-", "a:", "$", "\\", "/", "(", "[", "&", "|", "\0",
        "é", "-", "!", "<", ">>", "0x", ":::1", "1:g ", "_", "1/", "{",
    ];
    for unit in rows {
        assert!(refusal(longest(unit, ""), true).is_some(), "{unit:?}");
    }
}

/// There is memory for so many tunnels; the one too many is the error, and nothing behind it is
/// looked at.
#[test]
fn the_tunnel_that_is_one_too_many_is_marked() {
    const UNIT: &str = "vxlan inner (tcp)";
    const JOIN: &str = " or ";
    let many = |count: usize| vec![UNIT; count].join(JOIN);
    let refused = |expression: &str| {
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.extensions = true;
        compile(expression, &options, &Tables::new()).err()
    };
    let fitting = (1..40).take_while(|&count| refused(&many(count)).is_none());
    let fitting = fitting.last().expect("at least one tunnel");
    let error = refused(&format!("{}{JOIN}host nowhere.invalid", many(fitting + 5)));
    let error = error.expect("more tunnels than there is memory for");
    assert_eq!(error.kind, ErrorKind::TooManyPlaces);
    assert_eq!(error.span.start, fitting * (UNIT.len() + JOIN.len()));
}
