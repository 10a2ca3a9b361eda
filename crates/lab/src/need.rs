//! The requirements of tests, and the checks whether the machine meets them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ringtap_sys::bpf::{Feature, Features, Kernel};

/// A requirement of a test that a machine may not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// The effective capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN: namespaces, devices, captures.
    Root,
    /// An ordinary user, without CAP_NET_ADMIN and CAP_NET_RAW.
    NotRoot,
    /// A kernel that answers questions about network interfaces. [`Need::Root`] and the needs that
    /// require it include this, and so does [`Need::LibpcapDev`].
    Interfaces,
    /// Permission to create a user namespace.
    UserNamespace,
    /// A kernel with VLAN sub-interfaces (`CONFIG_VLAN_8021Q`), and root to check it.
    Vlan,
    /// A kernel with virtual interfaces of this kind that need no parameters (`bond`, `team`,
    /// `bridge`), and root to check it.
    Kind(&'static str),
    /// A kernel in which `ip link add link veth0 name probe0 type …` succeeds with these words at
    /// its end, and root to check it.
    Device(&'static str),
    /// The initial PID namespace, in which the kernel's threads have numbers; containers have
    /// another.
    InitialPids,
    /// Permission to create control groups that limit memory.
    MemoryGroup,
    /// Permission to create control groups (version 2).
    ControlGroups,
    /// A kernel that lets processes use io_uring.
    IoUring,
    /// A kernel with loop devices, to mount files.
    LoopDevices,
    /// A kernel whose device mapper has this target, and the program `dmsetup`.
    DeviceMapper(&'static str),
    /// A kernel that has this file system already (`/proc/filesystems`).
    FileSystem(&'static str),
    /// A file system in memory (tmpfs) at `/dev/shm`.
    SharedMemory,
    /// The corpus of capture files ([`crate::corpus`]).
    Corpus,
    /// A file of the corpus, by its name there.
    CorpusFile(&'static str),
    /// A program in the search path or in an `sbin` folder.
    Tool(&'static str),
    /// The npm packages of the page of `ringtap web` ([`crate::page_folder`]), which the test command fetches.
    PagePackages,
    /// A module of [`python`].
    PythonModule(&'static str),
    /// A C compiler and libpcap's headers, for the oracle (`ringtap_testkit::libpcap`).
    LibpcapDev,
    /// A kernel of this version (major, minor) or later.
    Kernel(u32, u32),
    /// A kernel with tcx (Linux 6.6), checked by using it.
    Tcx,
    /// This many processors that the process may use.
    Processors(usize),
    /// A machine that belongs to the test (`cargo xtask kernels`), in which it may switch processors
    /// off and unplug adapters.
    OwnMachine,
    /// This many NUMA nodes.
    NumaNodes(usize),
    /// Two network adapters with this driver that are joined to one another
    /// ([`crate::adapters`]), in a machine that belongs to the test.
    Adapters(&'static str),
}

/// Returns whether the kernel has a file system, without loading a module.
fn has_file_system(name: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let mut names = known
        .lines()
        .map(|line| line.split_whitespace().next_back());
    names.any(|known| known == Some(name))
}

/// Returns whether processes may use io_uring. Kernels before Linux 6.6 have no switch for it.
fn allows_rings() -> bool {
    let switch = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    kernel_version() >= (5, 6)
        && switch.map_or(kernel_version() < (6, 6), |text| text.trim() == "0")
}

/// Returns whether the device mapper lists a target.
fn has_device_mapper(target: &str) -> bool {
    let Some(program) = find_tool("dmsetup") else {
        return false;
    };
    let output = Command::new(program).arg("targets").output();
    output.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        let mut names = text.lines().map(|line| line.split_whitespace().next());
        names.any(|name| name == Some(target))
    })
}

/// Bit numbers of `CapEff` in `/proc/self/status` (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;

/// The environment variable of a machine that belongs to the test.
const OWN_MACHINE: &str = "RINGTAP_TEST_OWN_MACHINE";

impl Need {
    /// Returns whether it is a network, a device or a kernel limit of the test's own, which takes privileges
    /// and time: tests with such a need are live.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(
            self,
            Self::Root
                | Self::UserNamespace
                | Self::Vlan
                | Self::Kind(_)
                | Self::Device(_)
                | Self::MemoryGroup
                | Self::ControlGroups
                | Self::LoopDevices
                | Self::DeviceMapper(_)
                | Self::OwnMachine
                | Self::Adapters(_)
        )
    }

    /// Returns `None` if the machine meets the need, otherwise the reason for skipping, such as
    /// `needs tcpdump`.
    #[must_use]
    pub fn unmet(&self) -> Option<String> {
        if self.asks_about_interfaces() && crate::netns::is_locked_up() {
            return Some(format!("needs {}", Self::Interfaces));
        }
        if matches!(self, Self::Corpus) && crate::slowness() > 1 {
            return Some("reads the whole corpus: too much for an emulated machine".to_owned());
        }
        (!self.is_met()).then(|| format!("needs {self}"))
    }

    fn asks_about_interfaces(self) -> bool {
        matches!(
            self,
            Self::Root | Self::Interfaces | Self::UserNamespace | Self::Vlan | Self::Kind(_) | Self::Device(_)
                // Host names are looked up, for which the C library queries the interfaces'
                // addresses.
                | Self::LibpcapDev
        )
    }

    fn is_met(&self) -> bool {
        match *self {
            Self::Root => has_capability(CAP_NET_ADMIN) && has_capability(CAP_SYS_ADMIN),
            Self::NotRoot => !has_capability(CAP_NET_ADMIN) && !has_capability(CAP_NET_RAW),
            Self::Interfaces => !crate::netns::is_locked_up(),
            Self::UserNamespace => can_make_user_namespace(),
            Self::Vlan => Self::Root.is_met() && crate::netns::kernel_has_vlans(),
            Self::Kind(kind) => Self::Root.is_met() && crate::netns::kernel_has(kind),
            Self::Device(words) => Self::Root.is_met() && crate::netns::kernel_makes(words),
            Self::InitialPids => is_initial_pid_namespace(),
            Self::MemoryGroup => crate::memory::MemoryGroup::new(u64::from(u32::MAX)).is_some(),
            Self::ControlGroups => crate::group::ControlGroup::new("probe").is_ok(),
            Self::IoUring => allows_rings(),
            Self::LoopDevices => Path::new("/dev/loop-control").exists(),
            Self::DeviceMapper(target) => has_device_mapper(target),
            Self::FileSystem(name) => has_file_system(name),
            Self::SharedMemory => is_tmpfs("/dev/shm"),
            Self::Corpus => crate::corpus::folder().is_some(),
            Self::CorpusFile(name) => crate::corpus::file(name).is_some(),
            Self::Tool(name) => find_tool(name).is_some(),
            Self::PagePackages => crate::page_folder()
                .join("node_modules/playwright-core")
                .is_dir(),
            Self::PythonModule(name) => has_python_module(name),
            Self::LibpcapDev => has_libpcap_headers(),
            Self::Kernel(major, minor) => kernel_version() >= (major, minor),
            Self::Tcx => has_tcx(),
            Self::Processors(count) => {
                std::thread::available_parallelism().is_ok_and(|found| found.get() >= count)
            }
            Self::OwnMachine => std::env::var_os(OWN_MACHINE).is_some(),
            Self::NumaNodes(count) => numa_nodes() >= count,
            Self::Adapters(driver) => {
                Self::OwnMachine.is_met() && crate::adapters::of(driver).len() == 2
            }
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root (CAP_NET_ADMIN and CAP_SYS_ADMIN)"),
            Self::NotRoot => f.write_str("a user without CAP_NET_ADMIN and CAP_NET_RAW"),
            Self::Interfaces => f.write_str(
                "a kernel whose network configuration is not locked up (a fault has left its lock held; \
                 the machine has to be started again)",
            ),
            Self::UserNamespace => f.write_str("user namespaces"),
            Self::Vlan => f.write_str("root and a kernel with VLAN sub-interfaces"),
            Self::Kind(kind) => write!(f, "root and a kernel with interfaces of the kind {kind}"),
            Self::Device(words) => write!(f, "root and a kernel with devices of the kind {words}"),
            Self::InitialPids => f.write_str("the initial PID namespace, not a container's"),
            Self::MemoryGroup => f.write_str("control groups that limit memory"),
            Self::ControlGroups => f.write_str("control groups of version 2"),
            Self::IoUring => f.write_str("io_uring (Linux 5.6; sysctl kernel.io_uring_disabled=0)"),
            Self::LoopDevices => f.write_str("loop devices"),
            Self::DeviceMapper(target) => {
                write!(f, "a device mapper with the target {target}, and dmsetup")
            }
            Self::FileSystem(name) => write!(f, "the file system {name} in the kernel"),
            Self::SharedMemory => f.write_str("a file system in memory at /dev/shm"),
            Self::Corpus => f.write_str("the corpus of captures (cargo xtask corpus)"),
            Self::CorpusFile(name) => write!(f, "{name} of another corpus (RINGTAP_CORPUS)"),
            Self::Tool(name) => write!(f, "the program {name}"),
            Self::PagePackages => f.write_str("the packages of the page of ringtap web (Node.js with npm)"),
            Self::PythonModule(name) => write!(f, "the Python module {name}"),
            Self::LibpcapDev => f.write_str("a C compiler and libpcap's headers (libpcap-dev)"),
            Self::Kernel(major, minor) => write!(f, "Linux {major}.{minor} or later"),
            Self::Tcx => f.write_str("a kernel with tcx chains (Linux 6.6)"),
            Self::Processors(count) => write!(f, "{count} processors"),
            Self::OwnMachine => f.write_str("a machine of its own (cargo xtask kernels)"),
            Self::NumaNodes(count) => write!(f, "{count} NUMA nodes"),
            Self::Adapters(driver) => write!(
                f,
                "two adapters with the driver {driver} (cargo xtask kernels 6.12-adapters)"
            ),
        }
    }
}

/// Returns the path of an installed program. An ordinary user's search path often lacks the `sbin`
/// folders, where tcpdump and similar programs may be, so they are searched as well.
#[must_use]
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    // Where `go install` puts programs.
    let go = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    std::env::split_paths(&path)
        .chain(sbin)
        .chain(go)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns the running kernel's version: major and minor; (0, 0) if it cannot be read.
#[must_use]
pub fn kernel_version() -> (u32, u32) {
    ringtap_sys::kernel::version()
}

fn has_tcx() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| Features::probe(&Kernel::running()).has(Feature::Tcx))
}

fn has_capability(bit: u32) -> bool {
    let mask = crate::process::status_field("self", "CapEff:");
    let mask = mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.unwrap_or_default() & (1 << bit) != 0
}

/// Returns whether a user namespace can be made, by creating one: the settings that forbid it
/// (`max_user_namespaces`, Debian's `unprivileged_userns_clone`, AppArmor's, a container's seccomp) are too
/// many to read.
fn can_make_user_namespace() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        succeeds(Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]))
    })
}

fn is_initial_pid_namespace() -> bool {
    /// The number that the kernel gives it (`PROC_PID_INIT_INO`, linux/proc_ns.h).
    const INITIAL: u32 = 0xefff_fffc;
    let link = std::fs::read_link("/proc/self/ns/pid");
    link.is_ok_and(|link| link.as_os_str() == format!("pid:[{INITIAL}]").as_str())
}

fn numa_nodes() -> usize {
    let nodes = std::fs::read_dir("/sys/devices/system/node");
    let names = nodes.into_iter().flatten().flatten();
    let is_node = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let nodes = names.filter(|entry| is_node(&entry.file_name().to_string_lossy()));
    nodes.count()
}

fn is_tmpfs(folder: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(folder) && fields.next() == Some("tmpfs")
    })
}

fn has_python_module(name: &str) -> bool {
    let find = "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)";
    succeeds(Command::new(python()).args(["-c", find, name]))
}

/// Returns the Python that tests run: `RINGTAP_PYTHON`, else the system's own.
#[must_use]
pub fn python() -> PathBuf {
    let chosen = std::env::var_os("RINGTAP_PYTHON");
    chosen.map_or_else(|| PathBuf::from("/usr/bin/python3"), PathBuf::from)
}

fn has_libpcap_headers() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let include = ["-E", "-include", "pcap/pcap.h", "-x", "c", "/dev/null"];
        find_tool("cc").is_some_and(|cc| succeeds(Command::new(cc).args(include)))
    })
}

/// Returns whether a command runs and succeeds; its output is thrown away.
pub fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = silent.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
