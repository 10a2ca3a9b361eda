//! The comparison with the installed libpcap, expression by expression, on one link type.
//!
//! Without optimisation, the two agree exactly: on rejected expressions, and on the values that
//! programs return. With it, libpcap's two programs do not always agree with each other. The rules
//! are then:
//! - ringtap's program returns for a packet what one of libpcap's two programs returns. A packet
//!   may end before a byte that only one program loads, or have a zero that only one divides by.
//!   The other program knows that the test decides nothing. The first one may then reject it.
//! - libpcap keeps the length of a variable header in a word of scratch memory. It uses the same word for
//!   arithmetic before the first test after the header. Such an expression is compared after a test that is
//!   always true and makes libpcap keep the word.
//! - libpcap's optimiser takes `& 0xffffffff != 0` to be always true. Packets whose number is zero
//!   are not compared.
//! - libpcap's optimiser adds a negative index to the header's offset, which may give a byte before the
//!   header. It does not if X is needed after the load; the index then wraps around and is beyond the packet,
//!   as in the unoptimised program. If ringtap's program finds the byte, it must return what libpcap's
//!   program returns on a machine whose indices wrap around.
//! - If libpcap's program loads scratch memory that it has not stored, its verdict is undefined,
//!   and nothing is compared.
//! - Invalid arithmetic that only shows after constant folding is rejected, but not by libpcap if
//!   it dropped the test before.
//! - A compiler that notices that no packet can match reports an error; the program of one that
//!   does not notice rejects every packet.

use std::fmt;

use ringtap_filter::program::opcode;
use ringtap_filter::{
    Ancillary, CompileError, CompileOptions, ErrorKind, Insn, LinkType, Program, Tables, compile,
};
use ringtap_testkit::libpcap::{self, Compile, Oracle, OracleError};
use ringtap_testkit::versions;

use crate::Random;
use crate::foreign;
use crate::packets::{Packet, guided};

/// DLT values of link types whose headers vary in length.
const WLAN: u32 = 105;
const PFLOG: u32 = 117;
const PRISM: u32 = 119;
const RADIOTAP: u32 = 127;
const AVS: u32 = 163;
const PPI: u32 = 192;

/// libpcap 1.10's error for prefixes (and masks) that do not follow `net`.
const PREFIX_WITHOUT_NET: &str = "Mask syntax for networks only";

/// The netmask that expressions are compiled with.
const NETMASK: u32 = 0xffff_ff00;

/// Two compilers that are compared.
pub struct Judge {
    dlt: u32,
    /// The version of libpcap: major and minor.
    version: versions::Version,
    /// Judges the packets of the link type.
    fixed: (Oracle, Vec<Packet>),
    /// Judges packets made for the expression, with this many walks through each program.
    guided: (Oracle, usize),
    names: Tables,
}

/// The result for an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Both reject it.
    RefusedAlike,
    /// Both compile it, and agree.
    Alike(Alike),
    /// libpcap overwrites the length of a header. Its program for an equivalent expression that
    /// avoids this agrees.
    Overwritten,
    /// A difference that libpcap 1.11 removes; the installed one is older.
    Newer,
    /// A difference that libpcap 1.11 introduced; the installed one is newer, ringtap follows 1.10.
    Older(&'static str),
    /// They disagree.
    Different(String),
}

/// Two sets of programs that agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Ours, unoptimised and optimised; `None` if no packet can match.
    pub ours: (Program, Option<Program>),
    /// The number of instructions of libpcap's programs, likewise.
    pub theirs: (usize, Option<usize>),
    /// The differences that were tolerated.
    pub leniency: Leniency,
    /// The number of packets compared.
    pub packets: usize,
}

/// The ways in which the optimisers may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// libpcap's two programs differ on some packet.
    pub two_minds: bool,
    /// Only one program loads a byte that decides nothing.
    pub dead_load: bool,
    /// Only one of the compilers notices that no packet matches.
    pub contradiction: bool,
    /// With optimisation, ringtap rejects arithmetic in a test that libpcap's optimiser drops
    /// before.
    pub dropped_arithmetic: bool,
    /// The result of libpcap's program depends, on some packet, on memory that it has not written.
    pub undefined: bool,
    /// libpcap's optimiser let zero pass a test that it takes to be always true.
    pub lost_zero: bool,
    /// libpcap's optimiser left an index that wraps around.
    pub wrapped: bool,
}

type Theirs = Result<Vec<libpcap::Insn>, OracleError>;
type Ours = Result<Program, CompileError>;

impl Judge {
    /// Makes a judge for a link type; `walks` is the number of packets made for each program.
    ///
    /// # Panics
    /// Panics if the helpers cannot be started.
    #[must_use]
    pub fn new(dlt: u32, packets: Vec<Packet>, walks: usize) -> Self {
        let mut fixed = Oracle::start().expect("the helper starts");
        set(&mut fixed, &packets);
        let version = fixed.version().expect("libpcap has a version");
        Self {
            dlt,
            version,
            fixed: (fixed, packets),
            guided: (Oracle::start().expect("the helper starts"), walks),
            names: system_names(),
        }
    }

    /// Returns the packets of the link type.
    #[must_use]
    pub fn packets(&self) -> &[Packet] {
        &self.fixed.1
    }

    /// Returns whether libpcap is 1.11 or later.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        versions::is_newer(self.version)
    }

    /// Compares the programs of an expression; packets are made with `random`.
    pub fn judge(&mut self, expression: &str, snaplen: u32, random: &mut Random) -> Finding {
        let theirs = [false, true].map(|optimize| {
            let how = how(self.dlt, snaplen, optimize);
            self.fixed.0.compile(expression, how)
        });
        let ours = [false, true].map(|optimize| {
            let options = options(self.dlt, snaplen, optimize);
            compile(expression, &options, &self.names)
        });
        match self.decide(theirs, ours, random) {
            Ok(finding) => finding,
            Err(difference) => {
                if let Some(intended) = self.intended(expression, &difference) {
                    intended
                } else if self.is_overwritten(expression, random) {
                    Finding::Overwritten
                } else {
                    Finding::Different(difference.message(expression))
                }
            }
        }
    }

    /// Returns the finding if the difference is one between versions of libpcap.
    fn intended(&self, expression: &str, difference: &Difference) -> Option<Finding> {
        if !self.is_newer() && versions::brought(expression, self.dlt) {
            return Some(Finding::Newer);
        }
        let refusal = match difference {
            Difference::Accepted(why) => Some(why.as_str()),
            _ => None,
        };
        versions::kept(self.version, expression, self.dlt, refusal).map(Finding::Older)
    }

    /// Returns whether a difference comes from an overwritten length. It compiles the expression after a test
    /// that is always true and reads the lengths, on packets that are long enough for that test. The words of
    /// the lengths then belong to them alone. They are preset to the values that libpcap computes for the
    /// test by itself. With `pppoes` in the expression it computes some of them wrongly, or not at all. If
    /// libpcap's program then agrees, the length was overwritten. It is tried with metadata and without.
    fn is_overwritten(&mut self, expression: &str, random: &mut Random) -> bool {
        let lengths = match self.dlt {
            WLAN | PRISM | RADIOTAP | AVS | PPI => "ether src 1:1:1:1:1:1 or ip proto 1",
            PFLOG => "ip proto 1",
            _ => return false,
        };
        let always = format!("(({lengths}) or not ({lengths}))");
        let how = how(self.dlt, 1, false);
        let behind = format!("{always} and ({expression})");
        let (oracle, packets) = &mut self.fixed;
        let programs = [&always, &behind].map(|text| oracle.compile(text, how));
        let ours = compile(expression, &options(self.dlt, 1, false), &self.names);
        let ([Ok(always), Ok(behind)], Ok(ours)) = (programs, ours) else {
            return false;
        };
        let (always, behind) = (insns(&always), insns(&behind));
        let (_, walks) = self.guided;
        let mut made = guided::packets(&behind, walks, random);
        made.extend(guided::packets(ours.insns(), walks, random));
        let mut compared = 0;
        for (data, len) in made.iter().chain(&*packets) {
            let fits = foreign::run(&always, data, *len).is_some_and(|verdict| verdict != 0);
            if !fits || data.len() < *len as usize {
                continue;
            }
            let lengths = foreign::words(&always, data, *len);
            let run =
                |has_metadata| foreign::run_keeping(&behind, data, *len, lengths, has_metadata);
            if run(false) != Some(ours.run(data, *len)) {
                return false;
            }
            let ours = ours.run_with(data, *len, &Ancillary::default());
            if run(true).is_some_and(|theirs| theirs != ours) {
                return false;
            }
            compared += 1;
        }
        compared > 0
    }

    fn decide(
        &mut self,
        [their_plain, theirs]: [Theirs; 2],
        [our_plain, ours]: [Ours; 2],
        random: &mut Random,
    ) -> Result<Finding, Difference> {
        let (their_plain, our_plain) = match (their_plain, our_plain) {
            (Err(OracleError::Refused(_)), Err(_)) => {
                return match (theirs, ours) {
                    (Err(_), Err(_)) => Ok(Finding::RefusedAlike),
                    (Ok(_), _) => Err("libpcap accepts it, but only optimised"),
                    (_, Ok(_)) => Err("accepted, but only optimised"),
                }
                .map_err(|message| Difference::Other(message.to_owned()));
            }
            (Err(OracleError::Refused(why)), Ok(_)) if why.contains(PREFIX_WITHOUT_NET) => {
                return Ok(Finding::Newer);
            }
            (Err(theirs), _) => return Err(Difference::Accepted(theirs.to_string())),
            (Ok(_), Err(ours)) => return Err(Difference::Refused(ours)),
            (Ok(theirs), Ok(ours)) => (theirs, ours),
        };
        let theirs = match theirs {
            Ok(program) => Some(program),
            // Invalid arithmetic that only shows after constant folding.
            Err(OracleError::Refused(_)) if ours.is_err() => None,
            Err(OracleError::Refused(why)) if why.contains("rejects all") => None,
            Err(other) => return Err(Difference::Accepted(other.to_string())),
        };
        let mut dropped_arithmetic = false;
        let ours = match ours {
            Ok(program) => Some(program),
            Err(error) if error.kind == ErrorKind::RejectsAll || theirs.is_none() => None,
            Err(error) if is_arithmetic(&error.kind) => {
                dropped_arithmetic = true;
                None
            }
            Err(error) => return Err(Difference::Refused(error)),
        };
        let mut programs = Programs {
            their_plain,
            theirs,
            our_plain,
            ours,
            is_newer: self.is_newer(),
            leniency: Leniency {
                dropped_arithmetic,
                ..Leniency::default()
            },
        };
        let packets = self.run(&mut programs, random)?;
        let sizes = (
            programs.their_plain.len(),
            programs.theirs.as_ref().map(Vec::len),
        );
        Ok(Finding::Alike(Alike {
            ours: (programs.our_plain, programs.ours),
            theirs: sizes,
            leniency: programs.leniency,
            packets,
        }))
    }

    /// Runs all programs on all packets; returns the number of packets.
    fn run(&mut self, programs: &mut Programs, random: &mut Random) -> Result<usize, Difference> {
        let (oracle, walks) = &mut self.guided;
        let mut made = guided::packets(&insns(&programs.their_plain), *walks, random);
        let ours = programs.ours.as_ref().unwrap_or(&programs.our_plain);
        made.extend(guided::packets(ours.insns(), *walks, random));
        // Ours may have none if only ringtap noticed a contradiction.
        if ours.has_loop() || programs.their_plain.iter().any(goes_back) {
            // If its loop for protochain returns to the same header, libpcap never ends.
            let theirs = insns(&programs.their_plain);
            made.extend_from_slice(&self.fixed.1);
            made.retain(|(data, len)| foreign::run(&theirs, data, *len).is_some());
            set(oracle, &made);
            programs.compare(oracle, &made)?;
            return Ok(made.len());
        }
        set(oracle, &made);
        programs.compare(oracle, &made)?;
        let (oracle, packets) = &mut self.fixed;
        programs.compare(oracle, packets)?;
        Ok(made.len() + packets.len())
    }
}

/// Returns whether an instruction is the jump that closes a loop.
fn goes_back(insn: &libpcap::Insn) -> bool {
    const JUMP: u16 = 0x05;
    insn.code == JUMP && insn.k.cast_signed() < 0
}

/// The four programs of an expression.
struct Programs {
    their_plain: Vec<libpcap::Insn>,
    theirs: Option<Vec<libpcap::Insn>>,
    our_plain: Program,
    ours: Option<Program>,
    /// Whether libpcap is 1.11 or later.
    is_newer: bool,
    leniency: Leniency,
}

impl Programs {
    /// Compares the programs on the packets that the oracle holds.
    fn compare(&mut self, oracle: &mut Oracle, packets: &[Packet]) -> Result<(), Difference> {
        let none = vec![0; packets.len()];
        let mut run = |program: &Vec<libpcap::Insn>| oracle.verdicts(program).expect("verdicts");
        let plain = run(&self.their_plain);
        let optimised = self.theirs.as_ref().map_or(none, &mut run);
        self.leniency.two_minds |= self.theirs.is_some() && plain != optimised;
        self.leniency.contradiction |= self.theirs.is_some() != self.ours.is_some();
        for (at, packet) in packets.iter().enumerate() {
            let (data, len) = packet;
            let theirs = plain[at];
            let verdict = self.our_plain.run(data, *len);
            if verdict != theirs {
                if self.is_undefined(packet) {
                    self.leniency.undefined = true;
                } else if self.is_newer && self.agree_beyond_end(packet) {
                    self.leniency.dead_load = true;
                } else {
                    return Err(Difference::verdict("", theirs, verdict, packet));
                }
                continue;
            }
            if self.leniency.dropped_arithmetic {
                continue;
            }
            let verdict = self.ours.as_ref().map_or(0, |ours| ours.run(data, *len));
            if verdict == theirs || verdict == optimised[at] {
                continue;
            }
            let theirs = self.theirs.as_deref().unwrap_or_default();
            if self.is_dead_load(packet) {
                self.leniency.dead_load = true;
            } else if self.is_undefined(packet) {
                self.leniency.undefined = true;
            } else if foreign::loses_zero(&insns(theirs), data, *len) {
                self.leniency.lost_zero = true;
            } else if self.finds_before_header(packet) {
                self.leniency.wrapped = true;
            } else {
                let (how, theirs) = ("optimised, ", optimised[at]);
                return Err(Difference::verdict(how, theirs, verdict, packet));
            }
        }
        Ok(())
    }

    /// Returns libpcap's programs, unoptimised and optimised.
    fn both(&self) -> impl Iterator<Item = &Vec<libpcap::Insn>> {
        std::iter::once(&self.their_plain).chain(&self.theirs)
    }

    /// Returns whether one of libpcap's programs has an undefined verdict on the packet, as it is or without
    /// being cut.
    fn is_undefined(&self, (data, len): &Packet) -> bool {
        self.both().map(|program| insns(program)).any(|program| {
            foreign::run(&program, data, *len).is_none()
                || foreign::run_padded(&program, data, *len).is_none()
        })
    }

    /// Returns whether the programs return the same for the uncut packet, or for any quotient of a division
    /// by zero. A program of libpcap that is one jump over constants agrees, too. libpcap 1.11 makes tests in
    /// another order than 1.10 and leaves some out, so its programs reach the end of a packet elsewhere.
    fn agree_beyond_end(&self, (data, len): &Packet) -> bool {
        const FOLDED: usize = 4;
        let theirs = insns(&self.their_plain);
        let ours = self.our_plain.insns();
        if theirs.len() <= FOLDED && is_constant(theirs[0]) {
            return true;
        }
        [None, Some(0), Some(u32::MAX)].into_iter().any(|quotient| {
            let run = |program| foreign::run_without_ends(program, data, *len, quotient);
            run(&theirs).is_some() && run(&theirs) == run(ours)
        })
    }

    /// Returns whether our optimised program finds a byte before a header for which libpcap's index wraps
    /// around. It then returns what both of libpcap's programs would return with indices that wrap around.
    fn finds_before_header(&self, (data, len): &Packet) -> bool {
        let ours = self.ours.as_ref().map(|ours| ours.run(data, *len));
        self.both()
            .map(|program| foreign::run_wrapping(&insns(program), data, *len))
            .all(|verdict| verdict.is_some() && verdict == ours)
    }

    /// Returns whether a difference comes from a load or a division that only one of the programs makes,
    /// because the other's optimiser found that it decides nothing. The load is after the end of a cut
    /// packet, or of metadata that only the kernel has; the division is by zero. With those bytes and
    /// metadata, and with any quotient, the programs return the same. Either of libpcap's programs may be the
    /// one that loads: if an offset wraps around, only the optimised one finds the byte, in a longer packet.
    fn is_dead_load(&self, (data, len): &Packet) -> bool {
        let mut padded = data.clone();
        padded.resize(data.len() + 70_000, 0);
        let there = Ancillary::default();
        let ours = self.ours.as_ref();
        let ours = ours.map_or(0, |ours| ours.run_with(&padded, *len, &there));
        self.both().any(|theirs| {
            let run = |quotient| {
                foreign::run_without_ends(&insns(theirs), data, *len, quotient) == Some(ours)
            };
            let alike = run(None) || run(Some(0)) && run(Some(u32::MAX));
            alike && libpcap::filter(theirs, data, *len).is_ok_and(|verdict| verdict == 0)
        })
    }
}

/// Returns whether an instruction loads a number.
fn is_constant(insn: Insn) -> bool {
    insn.code == opcode::LD | opcode::IMM
}

fn is_arithmetic(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::ShiftTooFar | ErrorKind::DivisionByZero)
}

/// A disagreement.
enum Difference {
    Accepted(String),
    Refused(CompileError),
    Other(String),
}

impl Difference {
    fn verdict(how: &str, theirs: u32, ours: u32, (data, len): &Packet) -> Self {
        let caplen = data.len();
        Self::Other(format!(
            "{how}libpcap {theirs}, ringtap {ours} on {caplen} of {len}: {}",
            Hex(data)
        ))
    }

    fn message(self, expression: &str) -> String {
        match self {
            Self::Accepted(why) => format!("accepted, but {why}"),
            Self::Refused(error) => format!("refused: {}", error.render(expression)),
            Self::Other(message) => message,
        }
    }
}

/// Bytes in hexadecimal, as tools take them.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns whether a difference on the expression is meaningless. If a tunnel is tested on a path on which
/// none was found, libpcap's program loads a word that it has not stored. After arithmetic, a walk over
/// headers or a link-layer header of variable length, that word holds old data. In addresses of ARCNET,
/// libpcap reads the dollar sign as a digit.
#[must_use]
pub fn is_murky(expression: &str, dlt: u32) -> bool {
    /// IEEE802_11, PRISM_HEADER, IEEE802_11_RADIO, IEEE802_11_RADIO_AVS, PPI.
    const OF_VARIABLE_LENGTH: [u32; 5] = [105, 119, 127, 163, 192];
    let words_are_used = expression.contains(['[', '=', '<', '>'])
        || expression.contains("protochain")
        || OF_VARIABLE_LENGTH.contains(&dlt);
    let tunnel = expression.contains("geneve") && words_are_used;
    tunnel || expression.contains('$')
}

/// Returns how libpcap compiles.
fn how(dlt: u32, snaplen: u32, optimize: bool) -> Compile {
    Compile {
        dlt,
        snaplen,
        netmask: Some(NETMASK),
        optimize,
    }
}

/// Returns how ringtap compiles: for a live capture, like libpcap with a handle that is not a
/// file's.
///
/// # Panics
/// Panics if no file can hold the DLT value.
#[must_use]
pub fn options(dlt: u32, snaplen: u32, optimize: bool) -> CompileOptions {
    let mut options = CompileOptions::new(LinkType::from_dlt(dlt).expect("a link type"));
    options.snaplen = snaplen;
    options.netmask = Some(NETMASK);
    options.optimize = optimize;
    options.ancillary = true;
    options
}

/// Returns the names in this system's files, where libpcap looks them up.
#[must_use]
pub fn system_names() -> Tables {
    Tables::of_files(|name| std::fs::read_to_string(format!("/etc/{name}")).unwrap_or_default())
}

/// Converts libpcap's instructions to ringtap's.
#[must_use]
pub fn insns(program: &[libpcap::Insn]) -> Vec<Insn> {
    program
        .iter()
        .map(|&libpcap::Insn { code, jt, jf, k }| Insn { code, jt, jf, k })
        .collect()
}

fn set(oracle: &mut Oracle, packets: &[Packet]) {
    let views: Vec<(u32, &[u8])> = packets
        .iter()
        .map(|(data, len)| (*len, &data[..]))
        .collect();
    oracle.set_packets(views).expect("packets");
}
