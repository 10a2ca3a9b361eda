//! The virtual machine: its first file system, its command line, the script that runs the suites.
//!
//! The first program is a script for a static BusyBox. It mounts the host's root by 9P, read-only, with a
//! layer in memory above it, mounts the usual system directories, and starts the suites' script there.
//! Results go out through a second share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_testkit::LIVE_ONLY;

use super::fetch::Fetched;
use super::machine::Machine;
use super::modules;
use super::outcome::UNSTEADY;
use super::processor::Processor;
use super::suites::Program;
use super::table::Kernel;
use crate::process::{self, at};

/// The time limit for start and stop, besides the suites.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// Packets that wait for a processor to receive them, 1,000 otherwise: a test's sender is faster than the
/// receiving side where each gets the one thread by turns.
const BACKLOG: u32 = 50_000;
/// The time limit for a caller's script.
const SCRIPT_LIMIT: Duration = Duration::from_secs(3600);
/// How much slower than a processor its emulation is; tests that wait or repeat take it into account.
const SLOWNESS: &str = "10";
/// This many failed tests of a suite are run once more, alone; more are no accident.
const MOST_REPEATED: usize = 5;
/// The time limit for one of these, in seconds.
const AGAIN_LIMIT: u64 = 600;
/// The kernel's options, besides the console.
const OPTIONS: &str = "quiet loglevel=5 mitigations=off panic=-1 no_timer_check";
/// The share with the host's files in a machine whose root is another.
const REPOSITORY: &str = "machine";
/// Where results go, inside.
const OUT: &str = "/run/vm/out";

/// Modules that tests use and that no kernel loads by itself in time.
const MODULES: [&str; 7] = [
    "tun",
    "veth",
    "dummy",
    "cls_bpf",
    "sch_ingress",
    "8021q",
    "af_packet_diag",
];

/// The first program. A folder that a kernel does not know is left out.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod "/modules/$module"; done
mkdir -p /host /above /new
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host || poweroff -f
mount -t tmpfs -o size=1500m tmpfs /above
mkdir -p /above/upper /above/work
mount -t overlay -o lowerdir=/host,upperdir=/above/upper,workdir=/above/work overlay /new || poweroff -f
mkdir -p /new/run /new/tmp /new/proc /new/sys /new/dev
# Where the root is not the host's, the repository and the folders beside it are at their place all the same.
if [ -e /modules/repository ]; then
    mkdir -p /machine /new/machine /above/beside /above/beside-work
    mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 machine /machine || poweroff -f
    beside=$(cat /modules/repository)
    mkdir -p "/new$beside"
    mount -t overlay -o "lowerdir=/machine$beside,upperdir=/above/beside,workdir=/above/beside-work" overlay "/new$beside" || poweroff -f
    mount --move /machine /new/machine
fi
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
mount -t tmpfs tmpfs /new/run
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs tmpfs /new/dev/shm
mount -t bpf bpf /new/sys/fs/bpf
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
mount -t debugfs debugfs /new/sys/kernel/debug
mount -t tracefs tracefs /new/sys/kernel/tracing
ln -sf /proc/self/fd /new/dev/fd
mkdir -p /new/run/vm/bin /new/run/vm/out /new/usr/lib/modules
cp /bin/busybox /new/run/vm/bin/
for applet in modprobe insmod lsmod poweroff; do ln -s busybox /new/run/vm/bin/$applet; done
mount -t 9p -o trans=virtio,version=9p2000.L,rw,cache=none,msize=262144 out /new/run/vm/out || poweroff -f
ln -s "$(cat /modules/folder)" "/new/usr/lib/modules/$(uname -r)"
echo /run/vm/bin/modprobe > /new/proc/sys/kernel/modprobe
ip link set lo up
hostname ringtap-vm
# This process is the one whose root the kernel takes for the modules that it asks for.
# It is no chroot, in which nobody may make user namespaces.
exec switch_root /new /bin/sh -c 'sh /run/vm/out/script > /run/vm/out/script.log 2>&1; sync; /run/vm/bin/poweroff -f'
"#;

/// The work in the machine.
#[derive(Clone, Copy)]
pub(crate) enum Job<'a> {
    /// Test programs, one after the other.
    Suites(&'a [&'a Program]),
    /// A script of the caller's, whose output is in the file `output`.
    Script(&'a Path),
}

/// The copy of a script; the machine may have its own folder at the original place.
const JOB: &str = "job";
/// The file with the output of a script.
pub(crate) const OUTPUT: &str = "output";

impl Job<'_> {
    fn limit(self) -> Duration {
        match self {
            Self::Suites(programs) => programs.iter().map(|program| program.suite.limit).sum(),
            Self::Script(_) => SCRIPT_LIMIT,
        }
    }

    /// Returns the programs that the host builds and the job runs.
    fn programs(self, machine: &Machine) -> Vec<PathBuf> {
        let command = ringtap_testkit::repository().join(machine.processor.programs);
        let mut programs = vec![command.join("ringtap")];
        if let Self::Suites(suites) = self {
            programs.extend(suites.iter().map(|program| program.path.clone()));
        }
        programs
    }

    fn script(self, machine: &Machine, results: &Path) -> String {
        let mut script = beginning(machine);
        for program in self.programs(machine) {
            let kept = kept(results, &program);
            let (kept, program) = (kept.display(), program.display());
            script.push_str(&format!("mount --bind {kept} {program}\n"));
        }
        match self {
            Self::Suites(programs) => suites(programs, machine, &mut script),
            Self::Script(_) => {
                script += &format!("sh {OUT}/{JOB} > {OUT}/{OUTPUT} 2>&1 < /dev/null\n");
            }
        }
        script
    }
}

/// Boots, runs the job, and waits for the end. The results are in `results`.
///
/// # Errors
/// The machine cannot be put together or started. One that hangs is ended, and the suites left over have no
/// result.
pub(crate) fn run(
    kernel: &Kernel,
    fetched: &Fetched,
    results: &Path,
    job: Job<'_>,
) -> Result<(), String> {
    let write = |name: &str, text: String| {
        let path = results.join(name);
        fs::write(&path, text).map_err(at(&path))
    };
    write("script", job.script(kernel.machine, results))?;
    keep(results, &job.programs(kernel.machine))?;
    if let Job::Script(path) = job {
        write(JOB, fs::read_to_string(path).map_err(at(path))?)?;
    }
    write("release", fetched.release.clone())?;
    let first = results.join("initrd");
    first_files(kernel.machine.processor, fetched, &first)?;
    let mut machine = kernel.machine.command();
    machine.args(kernel.machine.arguments());
    machine.args(arguments(kernel.machine.processor, fetched, results));
    println!("booting {}", fetched.release);
    let mut limited = process::limited(job.limit() + BOOT_LIMIT, &machine);
    let status = limited.stdout(Stdio::null()).status();
    let ended = process::judge(&limited, status);
    let removed = fs::remove_file(&first);
    let _ = fs::remove_dir_all(results.join(PROGRAMS));
    if results.join("booted").exists() {
        return removed.map_err(at(&first));
    }
    let console = fs::read(results.join("console")).unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    let last: Vec<&str> = console.lines().rev().take(5).collect();
    Err(format!(
        "{} did not boot ({}); the console's last lines: {}",
        kernel.name,
        ended.err().unwrap_or_else(|| "it ended".to_owned()),
        last.into_iter().rev().collect::<Vec<_>>().join(" | ")
    ))
}

/// The folder of links to the programs. A build on the host replaces the files, and these stay as they were.
const PROGRAMS: &str = "programs";

/// Returns the link to a program.
fn kept(results: &Path, program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or_default();
    results.join(PROGRAMS).join(name)
}

/// Makes the links.
fn keep(results: &Path, programs: &[PathBuf]) -> Result<(), String> {
    let folder = results.join(PROGRAMS);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    // Suites that do not run the command are built without it.
    for program in programs.iter().filter(|program| program.exists()) {
        let link = kept(results, program);
        fs::hard_link(program, &link).map_err(at(&link))?;
    }
    Ok(())
}

/// Returns the beginning of every script in the machine.
fn beginning(machine: &Machine) -> String {
    let (repository, processor) = (ringtap_testkit::repository(), machine.processor);
    // The host's modprobe would look for a list of modules, which only an installed kernel has.
    let mut script = format!(
        "export PATH=/run/vm/bin:$PATH:/usr/sbin:/sbin HOME=/root USER=root\n\
         export RINGTAP_TEST_SLOWNESS={SLOWNESS} RINGTAP_TEST_OWN_MACHINE=1\n\
         uname -r > {OUT}/booted\n\
         mkdir -p {target} && mount -t tmpfs tmpfs {target}\n\
         for module in {modules}; do modprobe $module; done\n\
         echo {BACKLOG} > /proc/sys/net/core/netdev_max_backlog\n\
         echo 1 > /proc/sys/net/core/fb_tunnels_only_for_init_net\n\
         echo +memory > /sys/fs/cgroup/cgroup.subtree_control\n",
        modules = [&MODULES, machine.modules()].concat().join(" "),
        target = repository.join(processor.target).join("tmp").display(),
    );
    if !repository.starts_with("/tmp") {
        script.push_str("mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp\n");
    }
    script
}

/// Appends the suites, one after the other.
fn suites(programs: &[&Program], machine: &Machine, script: &mut String) {
    for program in programs {
        let suite = program.suite;
        let (id, path) = (suite.id(), program.path.display());
        let crates = ringtap_testkit::repository().join("crates");
        let folder = crates.join(suite.folder);
        // The command's other tests read files, and are the same on every kernel.
        let setting = match suite.folder {
            "ringtap" => format!("export {LIVE_ONLY}=1"),
            _ => format!("unset {LIVE_ONLY}"),
        };
        script.push_str(&format!(
            "{setting}\ncd {folder}\nbegun=$(cut -d. -f1 /proc/uptime)\n\
             CARGO_MANIFEST_DIR={folder} timeout --kill-after=5 {limit} {path} {tests} > {OUT}/{id}.log 2>&1 < /dev/null\n\
             status=$?\n\
             sed -n 's/^test \\(.*[^ ]\\) *\\.\\.\\. FAILED$/\\1/p' {OUT}/{id}.log | head -n {MOST_REPEATED} | while read -r test; do\n\
             CARGO_MANIFEST_DIR={folder} timeout --kill-after=5 {AGAIN_LIMIT} {path} --exact \"$test\" \
             > {OUT}/{id}.again 2>&1 < /dev/null && grep -q '^test result: ok. 1 passed' {OUT}/{id}.again \
             && echo \"{UNSTEADY}$test\" >> {OUT}/{id}.log\n\
             done\n\
             dmesg -c > {OUT}/{id}.dmesg\n\
             echo \"$status $(($(cut -d. -f1 /proc/uptime) - begun)) {stamp} $(date -u +%FT%TZ)\" > {OUT}/{id}.status\n",
            folder = folder.display(),
            limit = suite.limit.as_secs(),
            tests = machine.tests,
            stamp = super::outcome::stamp(&program.path),
        ));
    }
}

/// Returns QEMU's command line.
fn arguments(processor: &Processor, fetched: &Fetched, results: &Path) -> Vec<String> {
    let share = |name: &str, path: &Path, options: &str| {
        let path = path.display();
        [
            "-fsdev".to_owned(),
            format!("local,id={name},path={path},security_model=none{options}"),
            "-device".to_owned(),
            format!("virtio-9p-pci,fsdev={name},mount_tag={name}"),
        ]
    };
    let console = format!("file:{}", results.join("console").display());
    let image = fetched.image.display().to_string();
    let first = results.join("initrd").display().to_string();
    let options = format!("console={} {OPTIONS}", processor.console);
    let mut arguments: Vec<String> = [
        "-accel",
        processor.accelerator,
        "-nographic",
        "-no-reboot",
        "-nodefaults",
        "-serial",
        &console,
        "-kernel",
        &image,
        "-initrd",
        &first,
        "-append",
        &options,
        "-device",
        "virtio-rng-pci",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend(processor.board.iter().map(|&word| word.to_owned()));
    let readable = ",readonly=on,multidevs=remap";
    arguments.extend(share("host", &fetched.root, readable));
    if !processor.is_host {
        arguments.extend(share(REPOSITORY, Path::new("/"), readable));
    }
    arguments.extend(share("out", results, ""));
    arguments
}

/// Writes the first file system, a compressed cpio archive.
fn first_files(processor: &Processor, fetched: &Fetched, to: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
    let root = folder.path();
    for name in ["bin", "proc", "sys", "dev", "modules"] {
        fs::create_dir(root.join(name)).map_err(at(root))?;
    }
    fs::copy(&fetched.busybox, root.join("bin/busybox")).map_err(at(root))?;
    let mut order = Vec::new();
    for module in modules::first(&fetched.modules)? {
        let file = format!("{}.ko", module.name);
        fs::write(root.join("modules").join(&file), module.bytes).map_err(at(root))?;
        order.push(file);
    }
    fs::write(root.join("modules/order"), order.join(" ")).map_err(at(root))?;
    let mut modules = fetched.modules.display().to_string();
    if !processor.is_host {
        modules.insert_str(0, &format!("/{REPOSITORY}"));
        let repository = ringtap_testkit::repository();
        let beside = repository.parent().unwrap_or(&repository).display();
        fs::write(root.join("modules/repository"), beside.to_string()).map_err(at(root))?;
    }
    fs::write(root.join("modules/folder"), modules).map_err(at(root))?;
    fs::write(root.join("init"), INIT).map_err(at(root))?;
    let pack = format!(
        "chmod 755 init bin/busybox && find . | '{}' cpio -o -H newc | gzip -1 > '{}'",
        fetched.host_busybox.display(),
        to.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &pack]).current_dir(root);
    process::check(shell.stderr(Stdio::null()))
}

#[cfg(test)]
mod tests {
    use super::super::machine::USUAL;
    use super::super::suites::SUITES;
    use super::*;

    #[test]
    fn each_suite_has_its_limit_and_leaves_a_status() {
        let program = Program {
            suite: &SUITES[1],
            path: "/nowhere/tap-1".into(),
        };
        let results = Path::new("/results");
        let script = Job::Suites(&[&program]).script(&USUAL, results);
        assert!(script.contains("mount --bind /results/programs/tap-1 /nowhere/tap-1\n"));
        assert!(
            script.contains(
                "timeout --kill-after=5 2400 /nowhere/tap-1  > /run/vm/out/capture.tap.log"
            )
        );
        assert!(script.contains("> /run/vm/out/capture.tap.status"));
        assert!(script.contains("/nowhere/tap-1 --exact \"$test\""));
        assert!(script.contains("RINGTAP_TEST_SLOWNESS=10"));
        let script = Job::Script(Path::new("/nowhere/x")).script(&USUAL, results);
        assert!(script.contains("sh /run/vm/out/job > /run/vm/out/output"));
    }
}
