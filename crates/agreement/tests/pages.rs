//! Tests the examples of the language's pages in every engine: programs must decide about packets
//! as the page says, in the interpreter, in native code, and in the kernel.

use std::process::ExitCode;

use ringtap_agreement::Random;
use ringtap_agreement::engine::{Checked, ENGINES, Engine};
use ringtap_agreement::packets::{Packet, guided};
use ringtap_filter::{CompileOptions, LinkType, Program, compile};
use ringtap_testkit::examples::{self, Example, Expected, Name, Page, Sample};
use ringtap_testkit::{Need, suite, test};

fn main() -> ExitCode {
    let tests = ENGINES.iter().map(|engine| {
        let needs: &[Need] = match engine.is_kernel {
            true => &[Need::Root, Need::Kernel(5, 18)],
            false => &[],
        };
        let name = format!("examples_agree: {}", engine.name);
        test(name, needs, move || examples_agree(*engine))
    });
    suite(tests.collect())
}

/// Tests every example on every packet that it names, optimised and not; and every name of the
/// tables of names, on packets that its program rejects and accepts.
fn examples_agree(engine: Engine) {
    const AT_LEAST: usize = 500;
    let samples = examples::samples();
    let mut compared = 0;
    for page in [
        "docs/reference/filter-language.md",
        "docs/reference/filter-link-types.md",
    ]
    .map(Page::read)
    {
        for name in &page.names {
            compared += agree_on_made(engine, name);
        }
        for example in page.examples {
            if example.expected == Expected::Refused {
                let options =
                    CompileOptions::new(LinkType::from_dlt(example.dlt).expect("a link type"));
                let refused = compile(&example.expression, &options, &examples::names()).is_err();
                assert!(refused, "{}: {}", example.place, example.expression);
            }
            for (names, taken) in [(&example.takes, true), (&example.leaves, false)] {
                for name in names {
                    let sample = &samples[name];
                    compared += agree(engine, &example, sample, taken);
                }
            }
        }
    }
    assert!(compared >= AT_LEAST, "only {compared} verdicts");
}

/// Returns how many verdicts were compared, of the optimised program and the other.
fn agree(engine: Engine, example: &Example, sample: &Sample, taken: bool) -> usize {
    let Example {
        place, expression, ..
    } = example;
    let packet = (sample.data.clone(), sample.length());
    let mut compared = 0;
    for optimize in [true, false] {
        let mut options = options(sample.dlt, optimize);
        options.extensions = example.expected == Expected::Extension;
        let place = format!("{place}: {expression}, optimised {optimize}");
        let program = compiled(expression, &options, &place);
        let verdict = program.run(&sample.data, sample.length()) != 0;
        assert_eq!(verdict, taken, "{place}");
        compared += checked(engine, &program, std::slice::from_ref(&packet), &place);
    }
    compared
}

/// Does the same for a name, on packets made for the program.
fn agree_on_made(engine: Engine, name: &Name) -> usize {
    const WALKS: usize = 2;
    let place = format!("{}: {}", name.place, name.expression);
    let program = compiled(&name.expression, &options(name.dlt, true), &place);
    let packets = guided::packets(program.insns(), WALKS, &mut Random(0));
    checked(engine, &program, &packets, &place)
}

fn options(dlt: u32, optimize: bool) -> CompileOptions {
    let mut options = CompileOptions::new(LinkType::from_dlt(dlt).expect("a link type"));
    options.netmask = Some(0xffff_ff00);
    options.optimize = optimize;
    options.ancillary = true;
    options
}

fn compiled(expression: &str, options: &CompileOptions, place: &str) -> Program {
    let program = compile(expression, options, &examples::names());
    program.unwrap_or_else(|error| panic!("{place}: {error}"))
}

/// Checks that all verdicts of the engine are the plain interpreter's; returns how many there are.
fn checked(engine: Engine, program: &Program, packets: &[Packet], place: &str) -> usize {
    match (engine.check)(program, packets) {
        Ok(Checked::Compared(count)) => count,
        Ok(Checked::NotTaken) => 0,
        Err(how) => panic!("{place}: {how}"),
    }
}
