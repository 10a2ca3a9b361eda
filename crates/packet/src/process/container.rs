//! The container that the path of a control group names, and what its runtime knows of it.
//!
//! Runtimes name the groups of their containers after them. The forms here are those of Docker, podman,
//! containerd and CRI-O (with systemd or without), Kubernetes' pods, LXC and systemd-nspawn.

/// A container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container<'a> {
    /// The runtime: `docker`, `podman`, `containerd`, `crio`, `lxc`, `nspawn`; empty if the path does not say.
    pub runtime: &'static str,
    /// The container's id or name, as it is in the path.
    pub id: &'a str,
    /// The pod's UID, with `-` between its parts or `_`, as in the path.
    pub pod: Option<&'a str>,
    /// The names that its runtime knows, if they were recorded.
    pub names: Option<&'a ContainerNames>,
}

/// The names of a container that only its runtime knows. Each is empty if it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerNames {
    /// The name of the container, as its user or its pod gave it.
    pub name: String,
    /// The name of the image that it was made of.
    pub image: String,
    /// The pod's namespace and name, with `/` between them.
    pub pod: String,
}

impl ContainerNames {
    /// Returns whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    fn have(&self, name: &str) -> bool {
        let in_namespace = self.pod.split_once('/').map(|(_, pod)| pod);
        !name.is_empty() && (self.name == name || self.pod == name || in_namespace == Some(name))
    }

    /// Returns the number of bytes of the names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.name.len() + self.image.len() + self.pod.len()
    }
}

impl<'a> Container<'a> {
    /// Returns its name, or else [`Container::short`].
    #[must_use]
    pub fn label(&self) -> &'a str {
        let name = self.names.map(|names| names.name.as_str());
        name.filter(|name| !name.is_empty()).unwrap_or(self.short())
    }

    /// Returns the id that runtimes print: the first 12 digits of a long one, otherwise all of it.
    #[must_use]
    pub fn short(&self) -> &'a str {
        if is_id(self.id) {
            &self.id[..12]
        } else {
            self.id
        }
    }

    /// Returns whether `name` is its id or name, the first digits of an id (at least 4), or the UID or name of its
    /// pod, with or without the pod's namespace.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        let begins = is_id(self.id) && name.len() >= 4 && self.id.starts_with(name);
        let parts = |uid: &str| uid.replace('_', "-");
        begins
            || self.id == name
            || self.pod.is_some_and(|pod| parts(pod) == parts(name))
            || self.names.is_some_and(|names| names.have(name))
    }
}

/// The words that runtimes write in front of an id in the name of a scope of systemd.
const PREFIXES: [(&str, &str); 6] = [
    ("docker-", "docker"),
    ("libpod-conmon-", "podman"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("crio-", "crio"),
    ("nerdctl-", "containerd"),
];

/// Returns the container of a control group, by its path. The innermost container counts. `None` if the path
/// names none.
#[must_use]
pub fn container_of(path: &str) -> Option<Container<'_>> {
    let mut found: Option<Container<'_>> = None;
    let (mut pod, mut parent) = (None, "");
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if let Some(uid) = pod_of(part) {
            pod = Some(uid);
        } else if let Some((runtime, id)) = named(part, parent, pod.is_some()) {
            found = Some(Container {
                runtime,
                id,
                pod,
                names: None,
            });
        }
        parent = part;
    }
    found
}

/// Returns the UID in the name of a pod's group: `kubepods-burstable-podUID.slice` or `podUID`.
fn pod_of(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.strip_prefix("kubepods") {
        Some(rest) => rest.rsplit_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    let is_uid = uid.len() >= 32
        && uid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_');
    is_uid.then_some(uid)
}

/// Returns the runtime and the id in the name of a container's group.
fn named<'a>(part: &'a str, parent: &str, in_pod: bool) -> Option<(&'static str, &'a str)> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = name.strip_prefix(prefix).filter(|id| is_id(id)) {
            return Some((runtime, id));
        }
    }
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(("lxc", name));
    }
    if parent == "lxc" && !part.is_empty() {
        return Some(("lxc", part));
    }
    if parent == "machine.slice"
        && let Some(machine) = name.strip_prefix("machine-")
    {
        return Some(("nspawn", machine));
    }
    if let Some(service) = part
        .strip_prefix("systemd-nspawn@")
        .and_then(|rest| rest.strip_suffix(".service"))
    {
        return Some(("nspawn", service));
    }
    // Without systemd the id is the whole name: /docker/ID, /kubepods/burstable/podUID/ID.
    let runtime = match parent {
        "docker" => "docker",
        "libpod_parent" | "libpod" => "podman",
        _ if in_pod => "",
        _ => return None,
    };
    is_id(name).then_some((runtime, name))
}

/// Returns whether it is an id: 64 hexadecimal digits, or 32 as some runtimes use them.
fn is_id(text: &str) -> bool {
    matches!(text.len(), 32 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "8f2a7f0e-5d3b-4c55-9f5e-000000000001";

    #[test]
    fn paths_of_runtimes_are_recognized() {
        let under = POD.replace('-', "_");
        let cases = [
            (format!("/system.slice/docker-{ID}.scope"), "docker", None),
            (format!("/docker/{ID}"), "docker", None),
            (
                format!("/machine.slice/libpod-{ID}.scope/container"),
                "podman",
                None,
            ),
            (
                format!(
                    "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"
                ),
                "podman",
                None,
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-{ID}.scope"
                ),
                "containerd",
                Some(under.as_str()),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{ID}.scope"),
                "crio",
                Some(under.as_str()),
            ),
            (format!("/kubepods/besteffort/pod{POD}/{ID}"), "", Some(POD)),
        ];
        for (path, runtime, pod) in &cases {
            let found = container_of(path);
            let expected = Container {
                runtime,
                id: ID,
                pod: *pod,
                names: None,
            };
            assert_eq!(found, Some(expected), "{path}");
        }
        assert_eq!(
            container_of(&cases[0].0).map(|c| c.short()),
            Some("0123456789ab")
        );
    }

    #[test]
    fn names_are_taken_as_they_are() {
        let id = |path| container_of(path).map(|container| (container.runtime, container.short()));
        assert_eq!(id("/lxc.payload.web/system.slice"), Some(("lxc", "web")));
        assert_eq!(id("/lxc/db"), Some(("lxc", "db")));
        assert_eq!(
            id("/machine.slice/machine-web.scope"),
            Some(("nspawn", "web"))
        );
        assert_eq!(
            id("/machine.slice/systemd-nspawn@web.service/payload"),
            Some(("nspawn", "web"))
        );
    }

    #[test]
    fn a_container_has_the_names_of_its_runtime() {
        let names = ContainerNames {
            name: "web".to_owned(),
            image: "docker.io/library/nginx".to_owned(),
            pod: "shop/web-7d9f".to_owned(),
        };
        let path = format!("/kubepods/besteffort/pod{POD}/{ID}");
        let unnamed = container_of(&path).expect("a container");
        assert_eq!(unnamed.label(), "0123456789ab");
        let named = Container {
            names: Some(&names),
            ..unnamed
        };
        assert_eq!(named.label(), "web");
        for name in ["web", "shop/web-7d9f", "web-7d9f", &ID[..4], POD] {
            assert!(named.is_named(name), "{name}");
        }
        for name in ["", "shop", "web-7", "docker.io/library/nginx"] {
            assert!(!named.is_named(name), "{name}");
        }
        assert!(!unnamed.is_named("web"));
    }

    #[test]
    fn other_groups_are_no_containers() {
        for path in [
            "",
            "/",
            "/system.slice/ssh.service",
            "/user.slice/user-0.slice/session-1.scope",
            "/system.slice/docker.service",
            "/docker/short",
            "/podman",
        ] {
            assert_eq!(container_of(path), None, "{path}");
        }
    }
}
