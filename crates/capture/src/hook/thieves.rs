//! Lets captures of ringtap that take packets from one another report it.
//!
//! A stealing capture is placed before those that already run. It takes the packets that match its filter, so
//! the others still see some packets and cannot notice by themselves ([`super::Sight`] finds thieves that
//! take everything). The kernel shows programs only with `CAP_NET_ADMIN`, which a capture has given up.
//!
//! So each capture listens on an abstract socket (unix(7)) in the interface's network namespace, whose name
//! starts with the interface's number. When a thief's program is attached, it connects to all listeners,
//! sends a line about the packets it takes, and keeps the connections until its program is removed. If it is
//! killed, the kernel closes them; the kernel also vouches for its process and user. Anybody may connect:
//! users other than root and the capture's own are ignored.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use ringtap_sys::local;
use ringtap_sys::privileges;

use super::HookPoint;
use crate::Error;
use crate::describe::Note;

/// The prefix of names; the interface's number and a number of the capture follow.
const PREFIX: &str = "ringtap-behind";
/// The number for all interfaces; no interface has it.
const ALL_INTERFACES: u32 = 0;
/// The maximum number of captures of an interface to which a thief reports itself.
const CAPTURES: u32 = 32;
/// The maximum number of thieves that a capture listens to.
const THIEVES: usize = 16;
/// The maximum number of connections that a check accepts: anybody on the host may connect, as often as they
/// like.
const CONNECTIONS: usize = 64;
/// The longest line.
const LINE: usize = 64;
/// The minimum time between two checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A thief: the packets that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Theft {
    /// Its process id, if it has one here.
    pub(crate) process: Option<u32>,
    /// The kernel's number of the interface.
    pub(crate) index: u32,
    /// The hook of its program.
    pub(crate) at: &'static str,
    /// Whether it takes all packets, or those that match its filter.
    pub(crate) all: bool,
}

/// A change since the last check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A thief is before the capture.
    Came(Theft),
    /// It has ended.
    Went(Theft),
}

impl News {
    /// Returns the change in the form of a report.
    pub(crate) fn into_error(self, device: String) -> Error {
        match self {
            Self::Came(theft) => Error::TakenBefore {
                device,
                process: theft.process,
                hook: theft.at,
                all: theft.all,
            },
            Self::Went(theft) => Error::TakenNoMore {
                device,
                process: theft.process,
            },
        }
    }
}

/// The thieves before a capture. Without any it costs a system call per second.
#[derive(Debug)]
pub(crate) struct Thieves {
    listener: UnixListener,
    name: String,
    /// The interface; `None` for all of them.
    index: Option<u32>,
    /// The user who opened the capture.
    user: u32,
    visitors: Vec<Visitor>,
    news: VecDeque<News>,
    looked: Instant,
    /// Whether any thief has taken some packets, so that their number is unknown.
    has_unknown: bool,
}

#[derive(Debug)]
struct Visitor {
    stream: UnixStream,
    process: Option<u32>,
    said: Option<Theft>,
}

impl Thieves {
    /// Listens in the thread's network namespace for thieves on an interface, or on any. Call it before the
    /// capture's own programs are attached, so that no thief is missed. Returns `None` if no name is free or
    /// sockets are not available: a capture works without.
    pub(crate) fn listen(index: Option<u32>) -> Option<Self> {
        (0..CAPTURES).find_map(|number| {
            let name = name(index.unwrap_or(ALL_INTERFACES), number);
            let address = SocketAddr::from_abstract_name(&name).ok()?;
            let listener = UnixListener::bind_addr(&address).ok()?;
            listener.set_nonblocking(true).ok()?;
            Some(Self {
                listener,
                name,
                index,
                user: privileges::effective_user(),
                visitors: Vec::new(),
                news: VecDeque::new(),
                looked: Instant::now(),
                has_unknown: false,
            })
        })
    }

    /// Checks once a second, and returns one change per call.
    pub(crate) fn look(&mut self) -> Option<News> {
        if self.news.is_empty() && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.look_now();
        }
        self.news.pop_front()
    }

    /// Returns whether packets were taken that nobody has counted.
    pub(crate) fn hide_some(&self) -> bool {
        self.has_unknown
    }

    fn look_now(&mut self) {
        for _ in 0..CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else {
                break;
            };
            if let Some(visitor) = self.admit(stream)
                && self.visitors.len() < THIEVES
            {
                self.visitors.push(visitor);
            }
        }
        let (index, news) = (self.index, &mut self.news);
        self.visitors.retain_mut(|visitor| {
            let before = visitor.said.is_some();
            let stays = visitor.listen(index);
            match visitor.said.clone() {
                Some(theft) if !before && stays => news.push_back(News::Came(theft)),
                Some(theft) if before && !stays => news.push_back(News::Went(theft)),
                _ => {}
            }
            stays
        });
        let mut came = self.news.iter();
        self.has_unknown |= came.any(|one| matches!(one, News::Came(theft) if !theft.all));
    }

    /// Accepts a connection by root or the capture's own user.
    fn admit(&self, stream: UnixStream) -> Option<Visitor> {
        let peer = local::peer(&stream).ok()?;
        stream.set_nonblocking(true).ok()?;
        (peer.user == 0 || peer.user == self.user).then_some(Visitor {
            stream,
            process: peer.process,
            said: None,
        })
    }
}

impl Visitor {
    /// Reads its line, and returns whether it is still connected. A connection with another line is closed.
    fn listen(&mut self, index: Option<u32>) -> bool {
        let mut line = [0; LINE];
        match self.stream.read(&mut line) {
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
            Ok(0) => false,
            Ok(_) if self.said.is_some() => false,
            Ok(length) => {
                self.said = parse(&line[..length], self.process)
                    .filter(|theft| index.is_none_or(|index| index == theft.index));
                self.said.is_some()
            }
        }
    }
}

/// The connections of a thief to the captures from which it takes packets.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Held until the thief has ended.
    connections: Vec<UnixStream>,
    /// The process ids to which it reported itself.
    processes: Vec<u32>,
}

impl Announced {
    /// Reports a program that takes all packets or some to the captures that run after it on the interface,
    /// but not to the thief's own. It does not wait for a capture that does not listen.
    pub(crate) fn to_others(
        index: u32,
        place: HookPoint,
        all: bool,
        own: Option<&Thieves>,
    ) -> Self {
        let line = line(index, place, all);
        let mut announced = Self::default();
        let interfaces = [index, ALL_INTERFACES].into_iter();
        let names = interfaces.flat_map(|index| (0..CAPTURES).map(move |n| name(index, n)));
        for name in names.filter(|name| own.is_none_or(|own| own.name != *name)) {
            let Ok(Some(mut stream)) = local::connect_abstract(name.as_bytes()) else {
                continue;
            };
            // It is new, and has room for a line.
            if stream.write_all(line.as_bytes()).is_err() {
                continue;
            }
            let peer = local::peer(&stream).ok();
            announced
                .processes
                .extend(peer.and_then(|peer| peer.process));
            announced.connections.push(stream);
        }
        announced.processes.sort_unstable();
        announced.processes.dedup();
        announced
    }

    /// Returns the processes that see fewer packets from now on, if there are any.
    pub(crate) fn note(&self) -> Option<Note> {
        let processes = self.processes.clone();
        (!processes.is_empty()).then_some(Note::HidesFrom { processes })
    }
}

fn name(index: u32, number: u32) -> String {
    format!("{PREFIX}:{index}:{number}")
}

fn line(index: u32, place: HookPoint, all: bool) -> String {
    let at = if place.is_xdp() { XDP } else { TCX };
    let what = if all { ALL } else { SOME };
    format!("{at} {what} {index}\n")
}

const XDP: &str = "XDP";
const TCX: &str = "tcx";
const ALL: &str = "all";
const SOME: &str = "some";

fn parse(line: &[u8], process: Option<u32>) -> Option<Theft> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let mut words = line.split(' ');
    let at = words.next()?;
    let at = [XDP, TCX].into_iter().find(|known| *known == at)?;
    let what = words.next()?;
    let all = match what {
        ALL => true,
        SOME => false,
        _ => return None,
    };
    let index = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Theft {
        process,
        index,
        at,
        all,
    })
}

#[cfg(test)]
mod tests {
    use ringtap_sys::bpf::TcxSide;

    use super::*;

    const AT_TCX: HookPoint = HookPoint::Tcx(TcxSide::Ingress);

    /// Returns an interface of this test's own.
    fn index(number: u32) -> u32 {
        (std::process::id() << 8) | (1 << 31) | number
    }

    fn theft(index: u32, all: bool) -> Theft {
        let process = Some(std::process::id());
        Theft {
            process,
            index,
            at: TCX,
            all,
        }
    }

    fn look(thieves: &mut Thieves) -> Option<News> {
        thieves.look_now();
        thieves.news.pop_front()
    }

    #[test]
    fn thieves_come_and_go() {
        let index = index(1);
        let mut first = Thieves::listen(Some(index)).expect("a name");
        let mut second = Thieves::listen(Some(index)).expect("a name");
        assert_eq!(look(&mut first), None);
        let some = Announced::to_others(index, AT_TCX, false, Some(&second));
        assert!(some.processes.contains(&std::process::id()));
        assert_eq!(look(&mut first), Some(News::Came(theft(index, false))));
        assert_eq!(look(&mut first), None);
        assert_eq!(look(&mut second), None, "itself");
        assert!(first.hide_some());
        assert!(!second.hide_some());
        drop(some);
        assert_eq!(look(&mut first), Some(News::Went(theft(index, false))));
        assert_eq!(look(&mut first), None);
        assert!(first.hide_some(), "what is lost stays unknown");
        let all = Announced::to_others(index, AT_TCX, true, None);
        assert_eq!(look(&mut second), Some(News::Came(theft(index, true))));
        assert!(!second.hide_some(), "the interface counts those");
        drop(all);
    }

    #[test]
    fn other_interfaces_are_left_alone() {
        let mut victim = Thieves::listen(Some(index(2))).expect("a name");
        let announced = Announced::to_others(index(3), AT_TCX, false, None);
        assert_eq!(look(&mut victim), None);
        drop(announced);
    }

    #[test]
    fn nonsense_is_not_listened_to() {
        let mut victim = Thieves::listen(Some(index(4))).expect("a name");
        let connect = || local::connect_abstract(victim.name.as_bytes());
        let lines = ["tcx some\n", "", "tcx some 5", "\n", "a b c d e f"];
        let visits = lines.map(|line| {
            let mut stream = connect().expect("sockets").expect("it listens");
            stream.write_all(line.as_bytes()).expect("room");
            stream
        });
        assert_eq!(look(&mut victim), None);
        drop(visits);
        assert_eq!(look(&mut victim), None);
        assert!(victim.visitors.is_empty());
    }

    #[test]
    fn only_so_many_are_listened_to() {
        let index = index(5);
        let mut victim = Thieves::listen(Some(index)).expect("a name");
        let all: Vec<_> = (0..2 * THIEVES)
            .map(|_| Announced::to_others(index, AT_TCX, true, None))
            .collect();
        victim.look_now();
        assert_eq!(victim.news.len(), THIEVES);
        drop(all);
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for all in [false, true] {
            let line = line(7, AT_TCX, all);
            let expected = Theft {
                process: None,
                ..theft(7, all)
            };
            assert_eq!(parse(line.as_bytes(), None), Some(expected));
            assert!(line.len() < LINE);
        }
        for line in [
            "xsk all 1\n",
            "tcx none 1\n",
            "tcx all -1\n",
            "tcx all 1 2\n",
        ] {
            assert_eq!(parse(line.as_bytes(), None), None, "{line}");
        }
    }
}
