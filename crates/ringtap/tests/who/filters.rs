//! Filters on processes: live, and on the file of a capture without a filter.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use ringtap_testkit::group::ControlGroup;
use ringtap_testkit::netns::{Side, VethPair};

use super::captured::{Capturing, LIMIT, RINGTAP};
use super::{Client, PORT, address};

/// The processes of a test. Each sends a datagram from a new socket when the test says so.
struct Processes {
    web: Client,
    tool: Client,
    server: UdpSocket,
    group: ControlGroup,
}

impl Processes {
    /// Starts `web nginx` in a container, and `a tool` of user 1234 outside.
    fn start(pair: &VethPair) -> Self {
        let at = SocketAddr::from((pair.right.ipv4, PORT));
        let server = pair.right.run(|| UdpSocket::bind(at).expect("a socket"));
        server.set_read_timeout(Some(LIMIT)).expect("a socket");
        let (address, port) = address(&pair.right, PORT);
        let start = |name, uid| {
            let arguments = ["named", &address, &port, name, uid];
            Client::start(&pair.left, &arguments)
        };
        let group = ControlGroup::new("lxc.payload.shop").expect("a control group");
        let (web, tool) = (start("web nginx", "0"), start("tool", "1234"));
        group.add(web.pid).expect("it is moved");
        Self {
            web,
            tool,
            server,
            group,
        }
    }

    /// Makes each send a datagram, one after the other.
    fn send(&mut self) {
        for client in [&mut self.web, &mut self.tool] {
            client.tell();
            self.server.recv(&mut [0; 64]).expect("a datagram");
        }
    }

    fn end(self) {
        self.web.end();
        self.tool.end();
        drop(self.group);
    }
}

/// Which of both processes.
#[derive(Clone, Copy)]
enum Takes {
    Web,
    Tool,
    Both,
    Neither,
}

fn expressions(processes: &Processes) -> Vec<(String, Takes)> {
    let (web, tool) = (processes.web.pid, processes.tool.pid);
    let group = processes.group.path();
    let above = group.trim_end_matches("/lxc.payload.shop");
    [
        (r#"process "web nginx""#.to_owned(), Takes::Web),
        ("udp and not process tool".to_owned(), Takes::Web),
        (format!("pid {tool}"), Takes::Tool),
        (format!("pid in {{ {web}, {tool} }}"), Takes::Both),
        (format!("not pid {web} and udp port {PORT}"), Takes::Tool),
        (format!("pid {tool} and tcp"), Takes::Neither),
        ("uid 1234 or arp".to_owned(), Takes::Tool),
        ("udp and (uid 0 or uid 1234)".to_owned(), Takes::Both),
        ("container shop".to_owned(), Takes::Web),
        ("udp and not container shop".to_owned(), Takes::Tool),
        (format!("cgroup {group} and greater 20"), Takes::Web),
        (format!("cgroup {above} or process tool"), Takes::Both),
        (format!("cgroup {group}/below"), Takes::Neither),
        ("cgroup / and uid 1234".to_owned(), Takes::Tool),
    ]
    .into()
}

/// Returns the processes whose datagrams the file has that match the expression.
fn read_back(path: &std::path::Path, expression: &str) -> Vec<u32> {
    let folder = tempfile::tempdir().expect("a folder");
    let chosen = folder.path().join("chosen.pcapng");
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "--extended", "-r"]).arg(path);
    command.arg("-w").arg(&chosen).arg(expression);
    let output = command.output().expect("ringtap");
    assert!(output.status.success(), "{expression}: {output:?}");
    super::captured::read(&chosen).senders()
}

pub(crate) fn live_and_on_files() {
    let pair = VethPair::new();
    let mut processes = Processes::start(&pair);
    let (web, tool) = (processes.web.pid, processes.tool.pid);
    let capturing = Capturing::start(&pair.left, &[]);
    processes.send();
    let all = capturing.finish();
    assert_eq!(all.senders(), [web, tool]);
    for (expression, takes) in expressions(&processes) {
        let expected = match takes {
            Takes::Web => vec![web],
            Takes::Tool => vec![tool],
            Takes::Both => vec![web, tool],
            Takes::Neither => vec![],
        };
        assert_eq!(read_back(&all.path, &expression), expected, "{expression}");
        let capturing = Capturing::start(&pair.left, &["--extended", &expression]);
        processes.send();
        // Both were sent; packets of nobody may be captured, too.
        let captured = capturing.finish();
        assert_eq!(captured.senders(), expected, "{expression}");
        assert_eq!(captured.claimed(), expected.len(), "{expression}");
    }
    processes.end();
}

/// Received packets are looked up, and a filter in the kernel sees what was found.
pub(crate) fn received() {
    let pair = VethPair::new();
    let (address, port) = address(&pair.left, PORT);
    let server = Client::start(&pair.left, &["reuse_port", &address, &port]);
    let pid = server.pid;
    let captured = ["pid", "not pid"].map(|word| {
        let filter = format!("udp port {PORT} and {word} {pid}");
        let capturing = Capturing::start(&pair.left, &["--extended", &filter]);
        let own = SocketAddr::from((pair.right.ipv4, 0));
        let socket = pair.right.run(|| UdpSocket::bind(own).expect("a socket"));
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
        let to = SocketAddr::from((pair.left.ipv4, PORT));
        socket.send_to(b"who?", to).expect("sent");
        socket.recv(&mut [0; 64]).expect("an answer");
        capturing.finish()
    });
    server.end();
    let [its, others] = captured;
    let directions: Vec<bool> = its.packets.iter().map(|seen| seen.is_sent).collect();
    assert_eq!(directions, [false, true]);
    assert!(others.packets.is_empty(), "{:?}", others.packets);
}

/// A filter that asks for what is not recorded is an error before anything is opened.
pub(crate) fn refused() {
    let pair = VethPair::new();
    let device = pair.left.device.as_str();
    let cases: [(&[&str], &str, &str); 6] = [
        (
            &[],
            "process nginx",
            "dump --who finds those of live packets",
        ),
        (&["--who=pid"], "process nginx", "--who=comm"),
        (&["--who=pid,comm"], "tcp or uid 5", "--who=uid"),
        (&["--who=pid,comm"], "not container web", "--who=cgroup"),
        (&["--who"], "cgroup web", r#"begins with "/""#),
        (&["--who"], "pid 0", "there is no process 0"),
    ];
    for (arguments, expression, told) in cases {
        assert_refused(&pair.left, device, arguments, expression, told);
        assert_refused(&pair.left, "any", arguments, expression, told);
    }
    let stealing = ["--who", "--mode", "steal"];
    let at_tcx = format!("tcx:{device}");
    let told = "cannot be stolen by container";
    assert_refused(&pair.left, &at_tcx, &stealing, "container web", told);
}

fn assert_refused(side: &Side, device: &str, arguments: &[&str], expression: &str, told: &str) {
    let mut command = side.namespace.command(RINGTAP);
    command.args(["dump", "-i", device, "--extended", "-c", "1"]);
    let output = command.args(arguments).arg(expression).output();
    let output = output.expect("ringtap");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(told), "{text}");
}
