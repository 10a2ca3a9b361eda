//! The names of containers, from the files of their runtimes.
//!
//! Docker keeps them at a fixed place. Those of podman, CRI-O and containerd are found by the program that watches
//! over a container: an ancestor of its processes, whose arguments name its folder. Users have runtimes of their
//! own, so a file counts only if it belongs to the user of that program.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ringtap_packet::process::{Container, ContainerNames, container_of};
use ringtap_sys::output;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::container_in;

/// The largest file that is read, in bytes. A list of 10,000 containers takes 8 MiB.
const FILE_MAX: u64 = 16 << 20;
/// The longest name, in bytes. Kubernetes allows 253 for a pod and 63 for its namespace.
const NAME_MAX: usize = 320;
/// The most generations between a process and the program that watches over its container.
const ANCESTORS: usize = 64;
/// The number of processes of a control group that are tried.
const PROCESSES: usize = 8;

const DOCKER_OPTIONS: &str = "/etc/docker/daemon.json";
const DOCKER_FOLDER: &str = "/var/lib/docker";
/// The program of podman and CRI-O.
const CONMON: &str = "conmon";
/// The program of containerd, as the kernel cuts its name.
const SHIM: &str = "containerd-shim";
/// The containers of Docker among those of containerd.
const DOCKER_NAMESPACE: &str = "moby";
/// The folder of containerd's containers, beside its socket.
const TASKS: &str = "io.containerd.runtime.v2.task";

/// The annotations with a container's name: those of containerd, CRI-O and nerdctl.
const NAME: [&str; 3] = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
    "nerdctl/name",
];
const IMAGE: [&str; 2] = [
    "io.kubernetes.cri.image-name",
    "io.kubernetes.cri-o.ImageName",
];
/// The annotations with the pod's namespace and name.
const POD: [[&str; 2]; 2] = [
    [
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
    ],
    ["io.kubernetes.pod.namespace", "io.kubernetes.pod.name"],
];

/// The runtimes of this host.
#[derive(Debug)]
pub(crate) struct Runtimes {
    /// The root of the control groups.
    groups: Option<OwnedFd>,
    /// Docker's folder.
    docker: PathBuf,
}

/// A process with a name, a user and a parent.
struct Process {
    pid: u32,
    parent: u32,
    user: u32,
}

/// A runtime's description of a container (OCI runtime specification, config.json).
#[derive(Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: HashMap<String, String>,
}

/// A container in a list of containers/storage, which podman uses.
#[derive(Deserialize)]
struct Stored {
    id: String,
    /// JSON again.
    #[serde(default)]
    metadata: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, rename = "image-name")]
    image: String,
}

/// Docker's description of a container (config.v2.json).
#[derive(Deserialize)]
struct DockerContainer {
    #[serde(default, rename = "Name")]
    name: String,
    #[serde(default, rename = "Config")]
    config: DockerConfig,
}

#[derive(Default, Deserialize)]
struct DockerConfig {
    #[serde(default, rename = "Image")]
    image: String,
}

/// Docker's options.
#[derive(Deserialize)]
struct DockerOptions {
    #[serde(rename = "data-root")]
    folder: Option<PathBuf>,
}

impl Runtimes {
    /// Returns the runtimes. [`Runtimes::names`] needs the root of the control groups.
    pub(crate) fn new(groups: Option<OwnedFd>) -> Self {
        let options = read(Path::new(DOCKER_OPTIONS), 0);
        let folder = options.and_then(|text: DockerOptions| text.folder);
        Self {
            groups,
            docker: folder.unwrap_or_else(|| DOCKER_FOLDER.into()),
        }
    }

    /// Returns the names of the container of a control group. `None` if no process of the group is left that would
    /// lead to them.
    pub(crate) fn names(&self, group: &str) -> Option<ContainerNames> {
        let container = container_of(group)?;
        if container.runtime == "docker" {
            return Some(self.of_docker(&container));
        }
        let processes = self.processes(group);
        let mut processes = processes.into_iter().take(PROCESSES).peekable();
        processes.peek()?;
        let found = processes.find_map(|pid| self.by_ancestor(pid, &container));
        Some(found.unwrap_or_default())
    }

    /// Returns the names of a container that one of its processes leads to.
    pub(crate) fn names_of(&self, pid: u32, container: &Container<'_>) -> ContainerNames {
        match container.runtime {
            "docker" => self.of_docker(container),
            _ => self.by_ancestor(pid, container).unwrap_or_default(),
        }
    }

    /// Returns the names that the program which watches over a container leads to.
    fn by_ancestor(&self, pid: u32, container: &Container<'_>) -> Option<ContainerNames> {
        let mut process = Process::read(pid)?;
        for _ in 0..ANCESTORS {
            process = Process::read(process.parent)?;
            // A process of the container could name it as it likes.
            let groups = text(&format!("/proc/{}/cgroup", process.pid))?;
            if container_in(&groups).is_some_and(|its| its.id == container.id) {
                continue;
            }
            let names = match text(&format!("/proc/{}/comm", process.pid))?.trim_end() {
                CONMON => process.as_conmon(container),
                SHIM if process.is_of_docker() => Some(self.of_docker(container)),
                SHIM => process.as_shim(container),
                _ => None,
            };
            if names.is_some() {
                return names;
            }
        }
        None
    }

    fn of_docker(&self, container: &Container<'_>) -> ContainerNames {
        let folder = self.docker.join("containers").join(container.id);
        let found: Option<DockerContainer> = read(&folder.join("config.v2.json"), 0);
        found.map_or_else(ContainerNames::default, |found| ContainerNames {
            name: limited(found.name.trim_start_matches('/')),
            image: limited(&found.config.image),
            pod: String::new(),
        })
    }

    /// Returns the processes of a control group.
    fn processes(&self, group: &str) -> Vec<u32> {
        let Some(root) = &self.groups else {
            return Vec::new();
        };
        if group.split('/').any(|part| part == "..") {
            return Vec::new();
        }
        let list = format!("/proc/self/fd/{}{group}/cgroup.procs", root.as_raw_fd());
        let text = fs::read_to_string(list).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Process {
    /// Returns a process, as `/proc/PID/status` describes it.
    fn read(pid: u32) -> Option<Self> {
        let text = text(&format!("/proc/{pid}/status"))?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        // The real user comes first, then the effective one.
        let user = field("Uid:")?.split_ascii_whitespace().nth(1)?;
        Some(Self {
            pid,
            parent: field("PPid:")?.trim().parse().ok()?,
            user: user.parse().ok()?,
        })
    }

    fn arguments(&self) -> Option<Vec<String>> {
        let file = File::open(format!("/proc/{}/cmdline", self.pid)).ok()?;
        let mut line = Vec::new();
        file.take(1 << 16).read_to_end(&mut line).ok()?;
        let arguments = line.split(|byte| *byte == 0);
        Some(
            arguments
                .map(|argument| String::from_utf8_lossy(argument).into_owned())
                .collect(),
        )
    }

    /// Returns the names of a container, if this is its conmon.
    fn as_conmon(&self, container: &Container<'_>) -> Option<ContainerNames> {
        let arguments = self.arguments()?;
        if value(&arguments, "-c")? != container.id {
            return None;
        }
        let bundle = Path::new(value(&arguments, "-b")?);
        let names = self.annotated(bundle);
        if !names.name.is_empty() {
            return Some(names);
        }
        // podman: the folder of the container is in that of all containers.
        let mut folders = bundle.ancestors();
        let all = folders
            .find(|folder| folder.file_name().is_some_and(|name| name == container.id))
            .and_then(Path::parent);
        Some(ContainerNames {
            name: limited(value(&arguments, "-n").unwrap_or_default()),
            image: all.map_or_else(String::new, |all| self.image(all, container.id)),
            pod: String::new(),
        })
    }

    /// Returns whether this is the program of containerd for a container of Docker.
    fn is_of_docker(&self) -> bool {
        let arguments = self.arguments().unwrap_or_default();
        value(&arguments, "-namespace") == Some(DOCKER_NAMESPACE)
    }

    /// Returns the names of a container, if this is the program of containerd for it, or for its pod.
    fn as_shim(&self, container: &Container<'_>) -> Option<ContainerNames> {
        let arguments = self.arguments()?;
        let socket = Path::new(value(&arguments, "-address")?);
        let tasks = socket.parent()?.join(TASKS);
        let names = self.annotated(
            &tasks
                .join(value(&arguments, "-namespace")?)
                .join(container.id),
        );
        Some(names)
    }

    /// Returns the names in the annotations of a container.
    fn annotated(&self, folder: &Path) -> ContainerNames {
        let Some(Bundle { annotations }) = read(&folder.join("config.json"), self.user) else {
            return ContainerNames::default();
        };
        let of = |name: &str| annotations.get(name).map_or("", String::as_str);
        let first = |names: &[&str]| {
            let found = names.iter().map(|name| of(name));
            limited(
                found
                    .into_iter()
                    .find(|text| !text.is_empty())
                    .unwrap_or(""),
            )
        };
        let pods = POD.map(|[space, name]| [of(space), of(name)]);
        let pod = pods.into_iter().find(|[_, name]| !name.is_empty());
        ContainerNames {
            name: first(&NAME),
            image: first(&IMAGE),
            pod: pod.map_or_else(String::new, |[space, name]| {
                format!("{}/{}", limited(space), limited(name))
            }),
        }
    }

    /// Returns the name of the image of one of podman's containers.
    fn image(&self, folder: &Path, id: &str) -> String {
        // Containers that end with the machine are in a list of their own.
        let lists = ["containers.json", "volatile-containers.json"];
        let found = lists.iter().find_map(|list| {
            let stored: Vec<Stored> = read(&folder.join(list), self.user)?;
            stored.into_iter().find(|one| one.id == id)
        });
        let metadata = found.and_then(|found| serde_json::from_str(&found.metadata).ok());
        metadata.map_or_else(String::new, |Metadata { image }| limited(&image))
    }
}

/// Returns the argument after an option.
fn value<'a>(arguments: &'a [String], option: &str) -> Option<&'a str> {
    let place = arguments.iter().position(|argument| argument == option)?;
    arguments.get(place + 1).map(String::as_str)
}

/// Returns the text of a file of /proc. Names of processes may be cut within a character.
fn text(path: &str) -> Option<String> {
    let text = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the JSON of a file of this user. `None` if there is none.
fn read<T: DeserializeOwned>(path: &Path, user: u32) -> Option<T> {
    let mut options = OpenOptions::new();
    options.read(true);
    // To open some devices does something, and others may be named by a user.
    let found = options.custom_flags(output::FIND_ONLY).open(path).ok()?;
    let metadata = found.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != user || metadata.len() > FILE_MAX {
        return None;
    }
    let file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
    let mut text = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns a name without control characters, and without what is too long to be one.
fn limited(name: &str) -> String {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].replace(char::is_control, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        Process::read(std::process::id())
            .expect("this process")
            .user
    }

    #[test]
    fn annotations_of_each_runtime_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = Process {
            pid: 0,
            parent: 0,
            user: own(),
        };
        let cases = [
            (
                r#"{"io.kubernetes.cri.container-name": "web", "io.kubernetes.cri.image-name": "nginx:1",
                    "io.kubernetes.cri.sandbox-name": "web-0", "io.kubernetes.cri.sandbox-namespace": "shop"}"#,
                ["web", "nginx:1", "shop/web-0"],
            ),
            (
                r#"{"io.kubernetes.container.name": "db", "io.kubernetes.cri-o.ImageName": "pg",
                    "io.kubernetes.pod.name": "db-1", "io.kubernetes.pod.namespace": "shop"}"#,
                ["db", "pg", "shop/db-1"],
            ),
            (r#"{"nerdctl/name": "one"}"#, ["one", "", ""]),
            ("{}", ["", "", ""]),
        ];
        for (annotations, expected) in cases {
            let text = format!(r#"{{"ociVersion": "1.0", "annotations": {annotations}}}"#);
            fs::write(folder.path().join("config.json"), text).expect("a file");
            let names = process.annotated(folder.path());
            assert_eq!([names.name, names.image, names.pod], expected);
        }
    }

    #[test]
    fn only_whole_files_of_the_user_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.json");
        let is_read = |user| read::<Bundle>(&file, user).is_some();
        assert!(!is_read(own()), "there is none");
        fs::write(&file, "{}").expect("a file");
        assert!(is_read(own()) && !is_read(own() + 1));
        for text in ["", "1", "{\"annotations\": 1}", &"[".repeat(1000)] {
            fs::write(&file, text).expect("a file");
            assert!(!is_read(own()), "{text}");
        }
        let large = File::create(&file).expect("a file");
        large.set_len(FILE_MAX + 1).expect("a length");
        assert!(!is_read(own()), "too large");
        assert!(read::<Bundle>(folder.path(), own()).is_none(), "a folder");
    }

    #[test]
    fn names_are_cut_between_characters() {
        let long = "ä".repeat(NAME_MAX);
        assert_eq!(limited(&long).len(), NAME_MAX);
        assert_eq!(limited(&format!("x{long}")).len(), NAME_MAX - 1);
        assert_eq!(limited("a\x1b[31m\nb"), "a[31mb");
    }
}
