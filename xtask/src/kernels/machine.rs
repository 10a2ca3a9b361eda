//! The machines that kernels are booted in: processors, memory, network adapters, and what is run there.

use std::process::Command;

use super::processor::{AARCH64, Processor, X86_64};

/// A machine that QEMU emulates.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) processor: &'static Processor,
    processors: usize,
    /// NUMA nodes, among which processors and memory are divided.
    nodes: usize,
    /// Mebibytes.
    memory: usize,
    /// Whether it has two adapters of each driver.
    adapters: bool,
    /// The suites that are run there, as [`super::suites::Suite::id`] names them; none for all.
    suites: &'static [&'static str],
    /// The tests of the suites whose names have this text.
    pub(crate) tests: &'static str,
}

/// The suites of the engines and of the system calls below them: what a kernel's version can change.
const OF_ENGINES: [&str; 13] = [
    "capture.live",
    "capture.tap",
    "capture.xsk",
    "capture.stat",
    "capture.hooks",
    "capture.files",
    "capture.devices",
    "send.send",
    "sys.bpf",
    "sys.interfaces",
    "sys.packet_ring",
    "sys.privileges",
    "sys.xsk",
];

/// Where all suites are run.
pub(crate) const USUAL: Machine = Machine {
    processor: &X86_64,
    processors: 2,
    nodes: 1,
    memory: 3072,
    adapters: false,
    suites: &[],
    tests: "",
};

/// Two adapters with each of the drivers for hardware that QEMU emulates, joined.
pub(crate) static ADAPTERS: Machine = Machine {
    processors: 4,
    adapters: true,
    suites: &["ringtap.kinds"],
    tests: "adapter_",
    ..USUAL
};

/// Processors that go and come.
pub(crate) static PROCESSORS: Machine = Machine {
    processors: 4,
    suites: &["ringtap.machine", "capture.tap", "capture.stat"],
    ..USUAL
};

/// Memory at two places.
pub(crate) static NODES: Machine = Machine {
    processors: 4,
    nodes: 2,
    suites: &["ringtap.machine", "capture.tap"],
    ..USUAL
};

/// Little memory.
pub(crate) static SMALL: Machine = Machine {
    memory: 512,
    suites: &[
        "ringtap.machine",
        "capture.live",
        "capture.tap",
        "capture.stat",
    ],
    ..USUAL
};

/// A kernel between two on which all suites are run.
pub(crate) static ENGINES: Machine = Machine {
    suites: &OF_ENGINES,
    ..USUAL
};

/// Another processor.
pub(crate) static ARM: Machine = Machine {
    processor: &AARCH64,
    suites: &OF_ENGINES,
    ..USUAL
};

/// Drivers of the adapters that a machine may have.
const DRIVERS: [&str; 3] = ["virtio_net", "e1000e", "vmxnet3"];
/// Queues of virtio-net, for which QEMU asks the host: devices of the kind `tap`.
const QUEUES: usize = 4;

impl Machine {
    /// Whether a suite is run in it.
    pub(crate) fn runs(&self, suite: &str) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }

    /// QEMU's arguments.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "-smp".to_owned(),
            self.processors.to_string(),
            "-m".to_owned(),
            format!("{}M", self.memory),
        ];
        if self.nodes > 1 {
            for node in 0..self.nodes {
                let memory = self.memory / self.nodes;
                let (each, last) = (self.processors / self.nodes, node + 1);
                let processors = format!("{}-{}", node * each, last * each - 1);
                arguments.extend([
                    "-object".to_owned(),
                    format!("memory-backend-ram,id=memory{node},size={memory}M"),
                    "-numa".to_owned(),
                    format!("node,memdev=memory{node},cpus={processors}"),
                ]);
            }
        }
        if self.adapters {
            for number in 0..2 {
                arguments.extend(adapters(number));
            }
        }
        arguments
    }

    /// The command that runs QEMU, whose arguments are to follow: in a network of its own where the
    /// machine has adapters, which has nothing but their wires.
    pub(crate) fn command(&self) -> Command {
        let qemu = self.processor.qemu;
        if !self.adapters {
            return Command::new(qemu);
        }
        let mut command = Command::new("unshare");
        let script = format!(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1\n\
             ip link add wire type bridge && ip link set wire up || exit 1\n\
             for end in virtio0 virtio1; do\n\
             ip tuntap add $end mode tap multi_queue && ip link set $end master wire up || exit 1\n\
             done\n\
             exec {qemu} \"$@\""
        );
        command.args(["--net", "sh", "-c", &script, "sh"]);
        command
    }

    /// Kernel modules that its devices need.
    pub(crate) fn modules(&self) -> &'static [&'static str] {
        if self.adapters { &DRIVERS } else { &[] }
    }
}

/// One adapter of each driver. Those of a driver are joined: by a bridge of the host's where they have
/// several queues, else by a hub of QEMU's.
fn adapters(number: usize) -> Vec<String> {
    let vectors = 2 * QUEUES + 2;
    let mut arguments: Vec<String> = [
        "-netdev",
        &format!(
            "tap,id=virtio{number},ifname=virtio{number},script=no,downscript=no,queues={QUEUES}"
        ),
        "-device",
        &format!(
            "virtio-net-pci,netdev=virtio{number},mac=02:76:00:00:00:0{number},mq=on,vectors={vectors}"
        ),
    ]
    .map(str::to_owned)
    .to_vec();
    for (hub, device) in [(1, "e1000e"), (2, "vmxnet3")] {
        arguments.extend([
            "-netdev".to_owned(),
            format!("hubport,id={device}{number},hubid={hub}"),
            "-device".to_owned(),
            format!("{device},netdev={device}{number},mac=02:76:00:00:0{hub}:0{number}"),
        ]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_processors_are_divided_among_nodes() {
        let arguments = NODES.arguments().join(" ");
        assert!(arguments.contains("-smp 4 -m 3072M"), "{arguments}");
        assert!(
            arguments.contains("-numa node,memdev=memory1,cpus=2-3"),
            "{arguments}"
        );
        assert!(arguments.contains("id=memory0,size=1536M"), "{arguments}");
        assert!(!USUAL.arguments().join(" ").contains("-numa"));
    }

    #[test]
    fn adapters_are_joined_in_pairs() {
        let arguments = ADAPTERS.arguments();
        for device in ["virtio-net-pci", "e1000e", "vmxnet3"] {
            let begin = format!("{device},");
            let found = arguments.iter().filter(|word| word.starts_with(&begin));
            assert_eq!(found.count(), 2, "{device}");
        }
        assert_eq!(ADAPTERS.command().get_program(), "unshare");
        assert_eq!(USUAL.command().get_program(), X86_64.qemu);
    }

    #[test]
    fn a_machine_runs_its_suites() {
        assert!(USUAL.runs("capture.xsk") && SMALL.runs("capture.tap"));
        assert!(!SMALL.runs("ringtap.kinds"));
    }
}
