//! Tests the extensions of the filter language on packets built for them. The interpreter
//! (optimised and not), native code and the kernel at XDP must return the same verdict. It must
//! follow from how the packet was built.

mod build;
mod chains;
mod machines;
mod random;
mod sets;
mod table;
mod tunnels;

use std::process::ExitCode;

use machines::{Machines, names, options};
use ringtap_filter::{CompileError, CompileOptions, LinkType, Program, Tables, compile};
use ringtap_testkit::expressions::cases;
use ringtap_testkit::libpcap::{self, Compile, OracleError};
use ringtap_testkit::{Need, suite, test};

fn main() -> ExitCode {
    let mut tests = vec![
        test("nothing_else_changes_its_meaning", &[], unchanged),
        test("libpcap_refuses_them", &[Need::LibpcapDev], refused),
        test("errors_show_the_place", &[], errors),
        test("programs_stay_small", &[], sizes),
        test("random_conditions_agree", &[], random::agree),
    ];
    let groups: [(&str, Verdicts); 3] = [
        ("sets", sets::verdicts),
        ("tunnels", tunnels::verdicts),
        ("chains_of_ipv6", chains::verdicts),
    ];
    for (name, verdicts) in groups {
        let here = move || verdicts(Machines::Here);
        tests.push(test(format!("{name}_here"), &[], here));
        let kernel = move || verdicts(Machines::Kernel);
        tests.push(test(format!("{name}_at_xdp"), &[Need::Root], kernel));
    }
    suite(tests)
}

/// The verdicts of one group of extensions.
type Verdicts = fn(Machines);

/// Every expression of the corpus gives the same program, or the same error, as without extensions.
fn unchanged() {
    let mut compared = 0;
    let mut accepted = 0;
    for case in cases() {
        let Some(&dlt) = case.dlts.first() else {
            continue;
        };
        let compiled = |extensions| -> Result<Program, CompileError> {
            let mut options = CompileOptions::new(LinkType::from_dlt(dlt).expect("a link type"));
            options.ancillary = true;
            options.extensions = extensions;
            compile(&case.expression, &options, &Tables::new())
        };
        match (compiled(false), compiled(true)) {
            (Ok(without), Ok(with)) => {
                assert_eq!(without, with, "{}: {}", case.place, case.expression);
                accepted += 1;
            }
            // A parser with extensions may find an error at another place.
            (Err(_), Err(_)) => {}
            (without, with) => {
                panic!("{}: {}: {without:?}, {with:?}", case.place, case.expression)
            }
        }
        compared += 1;
    }
    assert!(
        compared > 5_000 && accepted > 2_000,
        "{compared}, {accepted}"
    );
}

fn refused() {
    let expressions = table::expressions();
    assert!(expressions.len() > 60, "{}", expressions.len());
    for expression in expressions {
        let how = Compile::default();
        match libpcap::compile(&expression, how) {
            Err(OracleError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("libpcap accepts {expression}"),
        }
        let mut options = options();
        options.extensions = false;
        let ours = compile(&expression, &options, &Tables::new());
        assert!(ours.is_err(), "{expression} is accepted without extensions");
    }
}

fn errors() {
    let cases = [
        ("port in { 80, 70000 }", 8..9, "greater than 65535"),
        ("port in { }", 10..11, "unexpected \"}\""),
        ("port in { 80", 8..9, "never closed"),
        ("vlan in { 1, 5000 }", 0..19, "greater than 4095"),
        (
            "host in { 10.0.0.1, 10.0.0.0/33 }",
            20..31,
            "at most 32 bits",
        ),
        ("host in { 1-5 }", 5..15, "range of numbers"),
        ("gtpu inner (foo)", 12..15, "unexpected \"foo\""),
        ("gre inner (tcp", 10..11, "never closed"),
        ("vxlan 16777216 inner (tcp)", 0..14, "greater than"),
        ("deep (vlan 5 and tcp)", 6..12, "vlan inner"),
        (
            "vlan inner (deep (ip and arp))",
            0..30,
            "rejects every packet",
        ),
    ];
    for (expression, place, words) in cases {
        let error = compile(expression, &options(), &Tables::new());
        let error = error.expect_err(expression);
        let text = error.render(expression);
        assert!(text.contains(words), "{expression}: {text}");
        if !words.contains("65535") {
            assert_eq!(error.span, place, "{expression}: {text}");
        }
    }
    let off = CompileOptions::new(LinkType::ETHERNET);
    for expression in [
        "port in { 80 }",
        "tcp and gre inner (udp)",
        "vlan 5 inner (ip)",
    ] {
        let error = compile(expression, &off, &Tables::new()).expect_err(expression);
        let text = error.render(expression);
        assert!(text.contains("switched on"), "{expression}: {text}");
    }
}

/// A set of many numbers costs few instructions on a path.
fn sizes() {
    use ringtap_filter::explain::Cost;
    let ports: Vec<String> = (0..256).map(|n| (n * 17 + 1).to_string()).collect();
    let expression = format!("tcp dst port in {{ {} }}", ports.join(", "));
    let program = compile(&expression, &options(), &Tables::new()).expect("a filter");
    let cost = Cost::of(&program);
    assert!(cost.instructions < 2 * 3 * 256, "{}", cost.instructions);
    // The header's tests, 7 halvings of 256 to 2 or 3, and these.
    assert!(cost.longest.is_some_and(|longest| longest < 28), "{cost:?}");
    for expression in table::expressions() {
        let program = compile(&expression, &options(), &names()).expect("a filter");
        assert!(
            program.insns().len() < 600,
            "{expression}: {}",
            program.insns().len()
        );
    }
}
