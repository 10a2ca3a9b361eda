//! The engines that run programs.

use ringtap_filter::ebpf::lower::{Hook, standalone};
use ringtap_filter::{CompileOptions, LinkType, Program, Tables, compile};
use ringtap_jit::Native;
use ringtap_sys::bpf::{self, Kernel, ProgramKind, ProgramRun};

/// The engines to use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machines {
    /// The interpreter, with and without the optimiser, and native code.
    Here,
    /// XDP, which needs privileges.
    Kernel,
}

/// The shortest packet that a test run accepts.
const SHORTEST: usize = 14;

pub(crate) fn options() -> CompileOptions {
    let mut options = CompileOptions::new(LinkType::ETHERNET);
    options.extensions = true;
    options
}

/// Returns the names that expressions use.
pub(crate) fn names() -> Tables {
    let mut names = Tables::new();
    names.add_hosts("192.0.2.1 www\n2001:db8::80 www6\n192.0.2.9 mail\n");
    names.add_services("domain 53/tcp\ndomain 53/udp\nhttp 80/tcp\nsyslog 514/udp\n");
    names.add_protocols("tcp 6\nudp 17\n");
    names
}

fn program(expression: &str, optimize: bool) -> Program {
    let mut options = options();
    options.optimize = optimize;
    let compiled = compile(expression, &options, &names());
    compiled.unwrap_or_else(|error| panic!("{}", error.render(expression)))
}

impl Machines {
    /// Checks that the expression accepts exactly the packets marked true.
    pub(crate) fn check(self, expression: &str, packets: &[(&[u8], bool)]) {
        let optimised = program(expression, true);
        match self {
            Self::Here => {
                let plain = program(expression, false);
                let native = Native::compile(&optimised).expect("native code");
                for (packet, taken) in packets {
                    let len = u32::try_from(packet.len()).expect("short");
                    let verdicts = [
                        optimised.run(packet, len) != 0,
                        plain.run(packet, len) != 0,
                        native.run(packet, len) != 0,
                    ];
                    assert_eq!(
                        verdicts, [*taken; 3],
                        "{expression} on {packet:02x?}\n{plain:?}"
                    );
                }
            }
            Self::Kernel => {
                let hook = Hook::Xdp { frags: false };
                let mut assembler = standalone(&optimised, hook).expect("known to XDP");
                assembler.allow_long_jumps(true);
                let code = assembler.finish().expect("labels are placed");
                let kind = ProgramKind::Xdp { frags: false };
                let loaded = bpf::Program::load(&Kernel::running(), "ringtap_test", kind, &code);
                let loaded = loaded.unwrap_or_else(|error| panic!("{expression}: {error}"));
                for (data, taken) in packets.iter().filter(|(data, _)| data.len() >= SHORTEST) {
                    let run = ProgramRun {
                        data,
                        ..ProgramRun::default()
                    };
                    let outcome = loaded.run(&run).expect("a test run");
                    assert_eq!(
                        outcome.return_value != 0,
                        *taken,
                        "{expression} on {data:02x?}"
                    );
                }
            }
        }
    }

    /// Like [`check`](Self::check), with lists.
    pub(crate) fn takes(self, expression: &str, taken: &[Vec<u8>], left: &[Vec<u8>]) {
        let packets: Vec<(&[u8], bool)> = taken
            .iter()
            .map(|packet| (&packet[..], true))
            .chain(left.iter().map(|packet| (&packet[..], false)))
            .collect();
        self.check(expression, &packets);
    }
}
