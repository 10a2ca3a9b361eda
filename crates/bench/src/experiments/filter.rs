//! The cost of a filter on each execution engine, over the number of its instructions.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ringtap_filter::ebpf::lower::{Hook, standalone};
use ringtap_filter::program::opcode::{ABS, H, JEQ, JMP, K, LD, RET};
use ringtap_filter::{CompileOptions, Insn, LinkType, Program, Tables, compile};
use ringtap_jit::{Native, PacketRef};
use ringtap_lab::Need;
use ringtap_sys::cycles::Rate;

use crate::helpers::{Alone, datagram, float, median};
use crate::results::Axis;
use crate::session::{Done, Session};

/// The size of the packet in bytes.
const FRAME: u16 = 64;
/// The number of packets in a batch.
const PACKETS: usize = 256;
/// The number of measurements of at least a millisecond; their median counts, because other
/// programs disturb some of them.
const STRETCHES: usize = 41;
const QUICK_STRETCHES: usize = 11;
const STRETCH: Duration = Duration::from_millis(1);
/// The numbers of tests in the chains; each is a load and a comparison.
const CHAINS: [u16; 6] = [1, 5, 10, 25, 50, 100];
const NAMES: [&str; 4] = [
    "interpreter",
    "native, a call each",
    "native, by batch",
    "eBPF",
];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(5, 18)], 1)?;
    let rate = Rate::measure(Duration::from_millis(20)).per_nanosecond;
    let metrics = [
        ("time of a packet", "ns", 2),
        ("cost of a packet", "cycles of the time-stamp counter", 1),
    ];
    session.figure(
        "The documents' three filters",
        Axis::names("filter"),
        metrics,
    );
    for (what, expression) in documents() {
        let machines = Machines::new(compiled(&expression)?)?;
        let title = format!("{what}: {} instructions", machines.program.insns().len());
        one(session, &title, None, &machines, rate)?;
    }
    let title = "Programs of which every instruction is executed";
    session.figure(title, Axis::linear("instructions", ""), metrics);
    for tests in CHAINS {
        let machines = Machines::new(chain(tests)?)?;
        // All instructions but the other return.
        let executed = machines.program.insns().len() - 1;
        let (title, at) = (format!("{executed} instructions"), float(executed as u64));
        one(session, &title, Some(at), &machines, rate)?;
    }
    Ok(())
}

fn one(
    session: &mut Session,
    title: &str,
    at: Option<f64>,
    machines: &Machines,
    rate: f64,
) -> Done {
    let stretches = session.amount(STRETCHES, QUICK_STRETCHES);
    session.case(title, at, &NAMES, 0, |who| {
        let nanoseconds = machines.time(who, stretches)?;
        Ok(vec![nanoseconds, nanoseconds * rate])
    })?;
    Ok(())
}

/// Filters for IP; for five TCP ports; for ten addresses and ten ports. No packet here has the
/// ports.
fn documents() -> [(&'static str, String); 3] {
    [
        ("IP", "ip".to_owned()),
        ("5 ports", format!("ip and udp port ({})", ports(5))),
        (
            "10 addresses, 10 ports",
            format!("not ip host ({}) and udp port ({})", addresses(), ports(10)),
        ),
    ]
}

/// Returns a program of consecutive tests, all of which fail.
fn chain(tests: u16) -> Done<Program> {
    let mut insns = Vec::new();
    for test in 0..tests {
        let half_word = u32::from(36 + test % 8 * 2);
        insns.push(Insn::new(LD | H | ABS, half_word));
        let rest = u8::try_from(2 * (tests - test) - 1)?;
        insns.push(Insn {
            jt: rest,
            ..Insn::new(JMP | JEQ | K, u32::from(7_000 + test * 13))
        });
    }
    insns.push(Insn::new(RET | K, 0));
    insns.push(Insn::new(RET | K, u32::from(u16::MAX)));
    Ok(Program::new(insns)?)
}

fn compiled(expression: &str) -> Done<Program> {
    let options = CompileOptions::new(LinkType::ETHERNET);
    let program = compile(expression, &options, &Tables::new());
    Ok(program.map_err(|error| format!("{expression}: {error}"))?)
}

/// Returns ten addresses that no packet has.
pub(super) fn addresses() -> String {
    numbered(10, |host| format!("203.0.113.{}", 3 + host * 17))
}

/// Returns ports that no packet has.
pub(super) fn ports(count: u16) -> String {
    numbered(count, |port| (7_000 + port * 13).to_string())
}

fn numbered(count: u16, text: impl Fn(u16) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().join(" or ")
}

/// One filter on every execution engine.
struct Machines {
    program: Program,
    native: Native,
    kernel: Alone,
    packet: Vec<u8>,
}

impl Machines {
    fn new(program: Program) -> Done<Self> {
        let native = Native::compile(&program)?;
        let code = standalone(&program, Hook::Xdp { frags: false });
        let code = code?;
        Ok(Self {
            native,
            kernel: Alone::new(&code, false, FRAME)?,
            program,
            packet: datagram(FRAME),
        })
    }

    /// Returns the nanoseconds for a packet.
    fn time(&self, who: usize, stretches: usize) -> Done<f64> {
        let data = self.packet.as_slice();
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let each = |run: &dyn Fn() -> u32| {
            stretched(stretches, || {
                for _ in 0..PACKETS {
                    black_box(run());
                }
            })
        };
        Ok(match who {
            0 => each(&|| self.program.run(black_box(data), len)),
            1 => each(&|| self.native.run(black_box(data), len)),
            2 => {
                let batch = vec![PacketRef::new(data, len); PACKETS];
                let mut verdicts = vec![0; PACKETS];
                stretched(stretches, || {
                    self.native.run_batch(black_box(&batch), &mut verdicts);
                    black_box(&verdicts);
                })
            }
            _ => self.kernel.nanoseconds()?,
        })
    }
}

/// Returns the nanoseconds for one packet of a pass over all of them: the median of several
/// measurements.
fn stretched(stretches: usize, mut pass: impl FnMut()) -> f64 {
    let time = |_| {
        let (begun, mut passes) = (Instant::now(), 0_u64);
        while begun.elapsed() < STRETCH {
            pass();
            passes += 1;
        }
        begun.elapsed().as_secs_f64() * 1e9 / float(passes * PACKETS as u64)
    };
    median((0..stretches.max(1)).map(time).collect())
}

#[cfg(test)]
mod tests {
    use super::{CHAINS, chain, compiled, documents};

    #[test]
    fn filters_reach_their_last_test() {
        let packet = crate::helpers::datagram(64);
        for (what, expression) in documents() {
            let program = compiled(&expression).expect(what);
            assert_eq!(program.run(&packet, 64) > 0, what == "IP", "{what}");
        }
        for tests in CHAINS {
            let program = chain(tests).expect("valid");
            assert_eq!(program.insns().len(), usize::from(2 * tests) + 2);
            assert_eq!(program.run(&packet, 64), 0, "{tests}");
        }
    }
}
