//! A kernel's packages: found in its suite, fetched, extracted.
//!
//! apt-get works with a configuration of its own: other sources, other folders, no list of installed
//! packages. The host's are not touched.

use std::cmp::Ordering;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::processor::{Processor, X86_64};
use super::table::Kernel;
use crate::process::{self, at};

/// The time limit for fetching lists or packages.
const FETCH_LIMIT: Duration = Duration::from_secs(300);
const DEFAULT_MIRROR: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The suite of a foreign root: its C library is the one that programs are cross-compiled for.
const FOREIGN_SUITE: &str = super::cross::SUITE;
/// The programs that the live suites run.
const FOREIGN_PACKAGES: [&str; 17] = [
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "ethtool",
    "grep",
    "hostname",
    "iproute2",
    "iputils-ping",
    "kmod",
    "mount",
    "procps",
    "python3-minimal",
    "sed",
    "tcpdump",
    "util-linux",
];
/// Newer kernels come in several packages.
const KINDS: [&str; 3] = ["image", "binary", "modules"];

/// An extracted kernel.
pub(crate) struct Fetched {
    /// As `uname -r` prints it.
    pub(crate) release: String,
    /// The compressed kernel.
    pub(crate) image: PathBuf,
    /// Its modules, with an index.
    pub(crate) modules: PathBuf,
    /// A static BusyBox, which contains the first programs of the machine.
    pub(crate) busybox: PathBuf,
    /// The same for the host.
    pub(crate) host_busybox: PathBuf,
    /// The folder that the machine sees as its root.
    pub(crate) root: PathBuf,
}

/// Fetches a kernel, unless it is there already.
///
/// # Errors
/// Returns a sentence on the missing program.
pub(crate) fn kernel(cache: &Path, kernel: &Kernel) -> Result<Fetched, String> {
    let processor = kernel.machine.processor;
    let host_busybox = busybox(cache, &X86_64)?;
    let (busybox, machine_root) = if processor.is_host {
        (host_busybox.clone(), PathBuf::from("/"))
    } else {
        (busybox(cache, processor)?, foreign_root(cache, processor)?)
    };
    let folder = cache.join(kernel.packages);
    let whole = folder.join("whole");
    if !whole.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        let apt = Apt::with(&cache.join("apt"), kernel.suite, &[processor.debian])?;
        let release = newest(kernel, &apt.packages("linux-image-")?)?;
        let names = KINDS.map(|kind| format!("linux-{kind}-{release}-{}", kernel.flavour));
        println!("fetching linux-image-{release}-{}", kernel.flavour);
        let offered = apt.packages("linux-")?;
        for name in names.iter().filter(|name| offered.contains(name)) {
            apt.extract(name, &folder)?;
        }
        let root = modules_of(&folder)?;
        index(&host_busybox, &root)?;
        fs::write(&whole, "").map_err(at(&whole))?;
    }
    let modules = modules_of(&folder)?;
    let short = folder.join("short-index");
    if !short.exists() {
        super::modules::shorten_index(&modules)?;
        fs::write(&short, "").map_err(at(&short))?;
    }
    let release = modules.file_name().unwrap_or_default().to_string_lossy();
    // Debian's kernels from 7.0 on are beside their modules.
    let images = [
        folder.join("boot").join(format!("vmlinuz-{release}")),
        modules.join("vmlinuz"),
    ];
    let image = images.into_iter().find(|path| path.is_file());
    let image = image
        .ok_or_else(|| format!("{}: no vmlinuz among the packages' files", folder.display()))?;
    Ok(Fetched {
        release: release.into_owned(),
        image,
        modules,
        busybox,
        host_busybox,
        root: machine_root,
    })
}

/// Fetches packages with all that they need and extracts them, unless they are there already.
///
/// # Errors
/// A sentence on what is missing.
pub(crate) fn root(
    cache: &Path,
    suite: &str,
    architectures: &[&str],
    packages: &[&str],
) -> Result<PathBuf, String> {
    let (folder, whole) = (cache.join("root"), cache.join("whole"));
    if !whole.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        println!("fetching {}", packages.join(", "));
        Apt::with(&cache.join("apt"), suite, architectures)?.extract_all(packages, &folder)?;
        fs::write(&whole, "").map_err(at(&whole))?;
    }
    Ok(folder)
}

/// The root of a machine whose programs the host does not run: Debian's packages, extracted.
fn foreign_root(cache: &Path, processor: &Processor) -> Result<PathBuf, String> {
    let cache = cache.join(format!("root-{}", processor.debian));
    let architectures = [processor.debian];
    let folder = root(&cache, FOREIGN_SUITE, &architectures, &FOREIGN_PACKAGES)?;
    // Installing base-passwd, passwd and tcpdump, which becomes a user of its own, would have made these.
    let shadow = folder.join("etc/shadow");
    fs::write(&shadow, "root:*:::::::\n")
        .and_then(|()| fs::set_permissions(&shadow, fs::Permissions::from_mode(0o600)))
        .map_err(at(&shadow))?;
    let user = "tcpdump:*:100:100::/nonexistent:/usr/sbin/nologin\n";
    for (name, more) in [("passwd", user), ("group", "tcpdump:*:100:\n")] {
        let to = folder.join("etc").join(name);
        let from = folder.join(format!("usr/share/base-passwd/{name}.master"));
        fs::read_to_string(&from)
            .and_then(|text| fs::write(&to, text + more))
            .map_err(at(&from))?;
    }
    Ok(folder)
}

fn busybox(cache: &Path, processor: &Processor) -> Result<PathBuf, String> {
    let folder = match processor.is_host {
        true => cache.join("busybox"),
        false => cache.join(format!("busybox-{}", processor.debian)),
    };
    let program = || {
        let folders = ["bin", "usr/bin"].map(|bin| folder.join(bin).join("busybox"));
        folders.into_iter().find(|path| path.is_file())
    };
    if let Some(found) = program() {
        return Ok(found);
    }
    let apt = Apt::with(&cache.join("apt"), "bookworm", &[processor.debian])?;
    apt.extract("busybox-static", &folder)?;
    program().ok_or_else(|| format!("{}: no busybox among the files", folder.display()))
}

/// Returns the newest of the packages' versions that are this kernel's.
fn newest(kernel: &Kernel, packages: &[String]) -> Result<String, String> {
    let releases = packages.iter().filter_map(|name| kernel.release_in(name));
    let newest = releases.max_by(|a, b| by_numbers(a, b));
    newest.map(str::to_owned).ok_or_else(|| {
        format!(
            "the suite {} has no linux-image-{}.*-{}",
            kernel.suite, kernel.version, kernel.flavour
        )
    })
}

/// Compares versions number by number.
fn by_numbers(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    numbers(a).cmp(&numbers(b))
}

/// Returns the folder of the modules, whose name is the release.
fn modules_of(folder: &Path) -> Result<PathBuf, String> {
    let parents = ["lib/modules", "usr/lib/modules"].map(|at| folder.join(at));
    let found = parents
        .iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flat_map(Iterator::flatten)
        .map(|entry| entry.path())
        .find(|path| path.join("kernel").is_dir());
    found.ok_or_else(|| format!("{}: no modules among the files", folder.display()))
}

/// Makes the index of the modules, which installing would have made.
fn index(busybox: &Path, modules: &Path) -> Result<(), String> {
    let place = modules.parent().and_then(Path::parent);
    let root = place.and_then(Path::parent).unwrap_or(modules);
    // depmod knows `lib/modules` only.
    let usr = root.ends_with("usr");
    let release = modules.file_name().unwrap_or_default();
    let mut depmod = Command::new(busybox);
    depmod.arg("depmod").arg("-b").arg(root).arg(release);
    process::check(&mut depmod)?;
    let made = modules.join("modules.dep");
    if made.is_file() {
        return Ok(());
    }
    let made = made.display();
    Err(format!("{made}: depmod has not made it (usr: {usr})"))
}

/// apt-get with one suite.
struct Apt {
    folder: PathBuf,
    architectures: Vec<String>,
}

impl Apt {
    /// Reads the suite's lists for these architectures, the first of which is the usual one.
    fn with(parent: &Path, suite: &str, architectures: &[&str]) -> Result<Self, String> {
        let apt = Self {
            folder: parent.join([&[suite], architectures].concat().join("-")),
            architectures: architectures.iter().map(|&one| one.to_owned()).collect(),
        };
        for folder in ["state/lists/partial", "cache/archives/partial", "packages"] {
            let path = apt.folder.join(folder);
            fs::create_dir_all(&path).map_err(at(&path))?;
        }
        let sources = apt.folder.join("sources.list");
        let line = format!("deb [signed-by={KEYRING}] {} {suite} main\n", mirror());
        fs::write(&sources, line).map_err(at(&sources))?;
        let configuration = apt.configuration();
        fs::write(&configuration, apt.options()).map_err(at(&configuration))?;
        let mut update = apt.command("apt-get");
        update.args(["-q", "update"]);
        let fetched = process::succeeds(&mut process::limited(FETCH_LIMIT, &update));
        let failed = || format!("the lists of Debian's suite {suite} cannot be fetched");
        fetched.then_some(apt).ok_or_else(failed)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("apt.conf")
    }

    fn options(&self) -> String {
        let folder = self.folder.display();
        let quoted = |name: &String| format!("\"{name}\";");
        let all: String = self.architectures.iter().map(quoted).collect();
        let first = self.architectures.first().map_or("amd64", String::as_str);
        format!(
            "Dir::State \"{folder}/state\";\nDir::State::status \"/dev/null\";\n\
             Dir::Cache \"{folder}/cache\";\nDir::Etc::sourcelist \"{folder}/sources.list\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
             Acquire::Check-Valid-Until \"false\";\nAcquire::Languages \"none\";\n\
             APT::Architecture \"{first}\";\nAPT::Architectures {{ {all} }};\n\
             APT::Sandbox::User \"root\";\nAPT::Install-Recommends \"false\";\nDebug::NoLocking \"true\";\n"
        )
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.configuration());
        command.current_dir(self.folder.join("packages"));
        command
    }

    /// Returns the names of all packages that begin so.
    fn packages(&self, start: &str) -> Result<Vec<String>, String> {
        let output = self.command("apt-cache").args(["pkgnames", start]).output();
        let output = output.map_err(|error| format!("apt-cache: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Fetches a package and extracts it; nothing is installed, none of its scripts runs.
    fn extract(&self, package: &str, folder: &Path) -> Result<(), String> {
        let packages = self.folder.join("packages");
        let mut download = self.command("apt-get");
        download.args(["-q", "download", package]);
        if !process::succeeds(&mut process::limited(FETCH_LIMIT, &download)) {
            return Err(format!("{package} cannot be fetched"));
        }
        let start = format!("{package}_");
        let entries = fs::read_dir(&packages).map_err(at(&packages))?;
        let file = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&start) && name.ends_with(".deb")
            })
            .ok_or_else(|| format!("{package}: apt-get has fetched no file"))?;
        unpack(&file, folder)
    }

    /// Fetches packages with all that they need, and extracts them. Nothing is installed; none of their
    /// scripts runs.
    fn extract_all(&self, packages: &[&str], folder: &Path) -> Result<(), String> {
        let mut download = self.command("apt-get");
        download.args(["-q", "-y", "--download-only", "install"]);
        let limit = 3 * FETCH_LIMIT;
        if !process::succeeds(&mut process::limited(limit, download.args(packages))) {
            return Err(format!("{} cannot be fetched", packages.join(", ")));
        }
        let archives = self.folder.join("cache/archives");
        let entries = fs::read_dir(&archives).map_err(at(&archives))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
        // The one with the links from /bin to /usr/bin comes first.
        files.sort_by_key(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (!name.starts_with("base-files_"), path.clone())
        });
        files.iter().try_for_each(|file| unpack(file, folder))
    }
}

/// Extracts a package's file into a folder, and removes it.
fn unpack(file: &Path, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    process::check(Command::new("dpkg-deb").arg("-x").arg(file).arg(folder))?;
    fs::remove_file(file).map_err(at(file))
}

/// Returns the mirror that this host uses.
fn mirror() -> String {
    let entries = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let is_list = |path: &PathBuf| {
        let extension = path.extension();
        extension.is_some_and(|extension| extension == "list" || extension == "sources")
    };
    let first = PathBuf::from("/etc/apt/sources.list");
    let mut lists = std::iter::once(first).chain(paths.filter(is_list));
    let found = lists.find_map(|path| mirror_in(&fs::read_to_string(path).ok()?));
    found.unwrap_or_else(|| DEFAULT_MIRROR.to_owned())
}

/// Returns the first address of Debian's main archive in a list of sources, of either form.
fn mirror_in(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim);
    let live = lines.filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    let words = live.flat_map(str::split_whitespace);
    let mut addresses = words.map(|word| word.trim_end_matches('/')).filter(|word| {
        let is_address = word.starts_with("http://") || word.starts_with("https://");
        is_address && word.ends_with("/debian")
    });
    addresses.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_told_by_numbers() {
        let packages = [
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-6.12.90+deb12-amd64",
            "linux-image-6.12.90+deb12.1-amd64",
            "linux-image-6.12.85+deb12-amd64",
            "linux-image-6.12.95+deb12-rt-amd64",
        ]
        .map(str::to_owned);
        let kernels = &super::super::table::KERNELS;
        let kernel = kernels.iter().find(|one| one.name == "6.12");
        let found = kernel.map(|kernel| newest(kernel, &packages));
        assert_eq!(found, Some(Ok("6.12.90+deb12.1".to_owned())));
    }

    #[test]
    fn mirrors_are_read_from_both_forms() {
        let new =
            "Types: deb\n# URIs: http://old/debian\nURIs: http://a.example/debian/\nSuites: x\n";
        assert_eq!(mirror_in(new).as_deref(), Some("http://a.example/debian"));
        let old = "deb http://s.example/debian-security x main\ndeb [a=b] https://b.example/debian x main";
        assert_eq!(mirror_in(old).as_deref(), Some("https://b.example/debian"));
        assert_eq!(mirror_in("deb https://other.example/apt x main"), None);
    }
}
