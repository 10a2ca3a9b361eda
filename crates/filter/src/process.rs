//! The process of a packet, as expressions ask for it: `process`, `pid`, `uid`, `container`, `cgroup`.
//!
//! A program has the facts of a packet's tag beside it: number, user, name. Containers and control groups are
//! [`Question`]s about the path of the process's control group. The caller answers them beforehand, once for each
//! control group, and passes the answers with a packet's [`PacketOwner`].
//!
//! ```
//! use ringtap_filter::process::{Asked, PacketOwner, ProcessTests};
//! use ringtap_filter::{Ancillary, CompileOptions, LinkType, Tables, compile};
//! use ringtap_packet::process::ProcessDescription;
//!
//! let expression = "pid 1234 or cgroup /system.slice";
//! let options = CompileOptions::new(LinkType::RAW).extensions(true).processes(ProcessTests::Complete);
//! let program = compile(expression, &options, &Tables::new())?;
//! let asked = Asked::of(expression, true)?;
//!
//! let described = ProcessDescription { cgroup: "/system.slice/ssh.service".to_owned(), ..Default::default() };
//! let answers = asked.answers(&described);
//! let process = PacketOwner { pid: 7, answers, ..PacketOwner::UNKNOWN };
//! let beside = Ancillary { process, ..Ancillary::default() };
//! assert_ne!(program.run_with(&[], 0, &beside), 0);
//! assert_eq!(program.run_with(&[], 0, &Ancillary::default()), 0, "nothing is known");
//! # Ok::<(), ringtap_filter::CompileError>(())
//! ```

use ringtap_packet::process::{ProcessDescription, ProcessTag};

use crate::CompileError;
use crate::language;
use crate::language::ast::{Expr, Primitive, ProcessTest};
use crate::program::opcode as op;

/// The questions that a program may ask about the process of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProcessTests {
    /// Nothing: packets have no process here, and an expression that asks for it is an error.
    #[default]
    Refused,
    /// Everything, by loads that only programs of ringtap have.
    Complete,
    /// Number, user and name. The program also accepts packets that might match if the other questions were
    /// answered.
    WithoutAnswers,
    /// Nothing: the program also accepts packets that might match if their process were known.
    Ignored,
}

/// A question about the control group of a packet's process, or its container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Whether the control group is that of a container. The text is the container's name or id, or the first
    /// digits of the id, at least 4; or the UID or name of its pod.
    Container(String),
    /// Whether the control group is this one, or one below it. The text is its path, from `/` on.
    Cgroup(String),
}

impl Question {
    /// Returns whether it applies to the processes of a control group, by the description of one of them.
    #[must_use]
    pub fn applies_to(&self, described: &ProcessDescription) -> bool {
        match self {
            Self::Container(name) => {
                let container = described.container();
                container.is_some_and(|container| container.is_named(name))
            }
            Self::Cgroup(path) => {
                let cgroup = &described.cgroup;
                let rest = cgroup.strip_prefix(path.trim_end_matches('/'));
                cgroup.starts_with('/') && rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
            }
        }
    }
}

/// The questions of an expression about processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// Whether it asks for anything.
    pub anything: bool,
    /// Whether it asks for the user.
    pub uid: bool,
    /// Whether it asks for the name.
    pub name: bool,
    /// The questions about control groups, in the order of their answers.
    pub questions: Vec<Question>,
}

impl Asked {
    /// Returns what an expression asks. `extensions` enables the extensions of the language, to which all of it
    /// belongs.
    ///
    /// # Errors
    /// Returns an error with its place if the expression is invalid on every link type.
    pub fn of(expression: &str, extensions: bool) -> Result<Self, CompileError> {
        let tree = language::parse(expression, extensions)?;
        Ok(tree.as_ref().map(Self::of_tree).unwrap_or_default())
    }

    pub(crate) fn of_tree(tree: &Expr) -> Self {
        let mut asked = Self::default();
        asked.collect(tree);
        asked
    }

    fn collect(&mut self, expr: &Expr) {
        match expr {
            Expr::Chain(first, rest) => {
                self.collect(first);
                rest.iter().for_each(|(_, next)| self.collect(next));
            }
            Expr::Not(inner) | Expr::Deep(inner, _) | Expr::Inner(_, inner, _) => {
                self.collect(inner);
            }
            Expr::Primitive(Primitive::Process(test), _) => self.note(test),
            Expr::Primitive(..) => {}
        }
    }

    fn note(&mut self, test: &ProcessTest) {
        self.anything = true;
        match test {
            ProcessTest::Pid(_) => {}
            ProcessTest::Uid(_) => self.uid = true,
            ProcessTest::Name(_) => self.name = true,
            ProcessTest::Asked(question) if self.number_of(question).is_none() => {
                self.questions.push(question.clone());
            }
            ProcessTest::Asked(_) => {}
        }
    }

    /// Returns the number of a question's answer.
    pub(crate) fn number_of(&self, question: &Question) -> Option<u32> {
        let place = self.questions.iter().position(|one| one == question)?;
        u32::try_from(place).ok()
    }

    /// Returns the answers for the processes of a control group, by the description of one of them: for each
    /// question a bit, the first one the lowest.
    #[must_use]
    pub fn answers(&self, described: &ProcessDescription) -> u64 {
        let questions = self.questions.iter().take(u64::BITS as usize);
        let bits = questions.enumerate();
        bits.fold(0, |bits, (number, question)| {
            bits | u64::from(question.applies_to(described)) << number
        })
    }
}

/// The facts about a packet's process that a program can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOwner {
    /// The number; 0 if the process is unknown.
    pub pid: u32,
    /// The effective user; `u32::MAX` if it is unknown.
    pub uid: u32,
    /// The name, with zeros at its end.
    pub name: [u8; 16],
    /// The answers to the questions about its control group ([`Asked::answers`]).
    pub answers: u64,
}

impl PacketOwner {
    /// A process of which nothing is known.
    pub const UNKNOWN: Self = Self {
        pid: 0,
        uid: u32::MAX,
        name: [0; 16],
        answers: 0,
    };

    /// Returns the facts of a packet's tag, with the answers about its control group.
    #[must_use]
    pub fn of(tag: &ProcessTag<'_>, answers: u64) -> Self {
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(tag.comm()) {
            *to = *from;
        }
        Self {
            pid: tag.pid(),
            uid: tag.uid(),
            name,
            answers,
        }
    }

    /// Returns the value of a load; 0 if it is not about the process.
    pub(crate) fn load(&self, offset: u32) -> u32 {
        match offset {
            op::PROCESS_PID => self.pid,
            op::PROCESS_UID => self.uid,
            _ if !op::is_process(offset) => 0,
            _ => match op::question(offset) {
                Some(question) => u32::from(self.answers >> question & 1 == 1),
                None => word(&self.name, offset - op::PROCESS_NAME),
            },
        }
    }
}

impl Default for PacketOwner {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// Returns a name as it is compared: cut to the 15 bytes that the kernel keeps, with zeros at its end.
pub(crate) fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    bytes
}

/// Returns the word at an offset of a name.
pub(crate) fn word(name: &[u8; 16], at: u32) -> u32 {
    let bytes = name.get(at as usize..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(cgroup: &str) -> ProcessDescription {
        ProcessDescription {
            cgroup: cgroup.to_owned(),
            ..ProcessDescription::default()
        }
    }

    #[test]
    fn groups_below_one_belong_to_it() {
        let asked =
            |path: &str, of: &str| Question::Cgroup(path.to_owned()).applies_to(&described(of));
        assert!(asked("/system.slice", "/system.slice"));
        assert!(asked("/system.slice/", "/system.slice/ssh.service"));
        assert!(!asked("/system.slice", "/system.slices"));
        assert!(!asked("/system.slice/ssh.service", "/system.slice"));
        assert!(asked("/", "/") && asked("/", "/user.slice"));
        // Nothing is known, or not where the path begins.
        assert!(!asked("/", "") && !asked("/a", "…/a"));
    }

    #[test]
    fn each_question_has_one_answer() {
        let text = "container web or not (cgroup /a and tcp) or container web or pid 1";
        let asked = Asked::of(text, true).expect("valid");
        assert!(asked.anything && !asked.uid && !asked.name);
        let questions = [
            Question::Container("web".to_owned()),
            Question::Cgroup("/a".to_owned()),
        ];
        assert_eq!(asked.questions, questions);
        assert_eq!(asked.answers(&described("/a/lxc.payload.web")), 0b11);
        assert_eq!(asked.answers(&described("/lxc.payload.web")), 0b01);
        assert_eq!(Asked::of("", true), Ok(Asked::default()));
    }

    #[test]
    fn loads_of_an_owner() {
        let owner = PacketOwner {
            pid: 7,
            uid: 8,
            name: *b"abcdefghijklmnop",
            answers: 1 << 63 | 1,
        };
        let loaded = |offsets: &[u32]| offsets.iter().map(|&at| owner.load(at)).collect::<Vec<_>>();
        assert_eq!(loaded(&[op::PROCESS_PID, op::PROCESS_UID]), [7, 8]);
        let words = [0, 4, 8, 12].map(|at| op::PROCESS_NAME + at);
        let letters = [*b"abcd", *b"efgh", *b"ijkl", *b"mnop"].map(u32::from_be_bytes);
        assert_eq!(loaded(&words), letters);
        let answers = [0, 1, 63].map(|number| op::PROCESS_ANSWERS + 4 * number);
        assert_eq!(loaded(&answers), [1, 0, 1]);
        assert_eq!(loaded(&[op::SKF_AD_PAY_OFFSET, 0x118, 0x300]), [0, 0, 0]);
    }
}
