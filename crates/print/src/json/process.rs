//! The process of a packet.

use std::borrow::Cow;

use ringtap_packet::Packet;
use ringtap_packet::process::{
    Container, ContainerNames, Evidence, ProcessDescription, ProcessTable, ProcessTag,
};
use serde::Serialize;

/// The user that is not recorded.
const NO_USER: u32 = u32::MAX;

#[derive(Serialize)]
pub(super) struct Process<'a> {
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<JsonContainer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<u32>,
    /// The role, unless the socket is the packet's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// How it was found, unless the process used the socket during the capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'static str>,
}

#[derive(Serialize)]
struct JsonContainer<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    image: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    runtime: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pod_name: &'a str,
}

impl<'a> Process<'a> {
    /// Returns the process of a packet, if it was recorded.
    pub(super) fn of(packet: &Packet<'a>, table: &'a ProcessTable) -> Option<Self> {
        let process = packet.process?;
        let tag = process.tag;
        let described = tag.as_ref().and_then(|tag| table.get(tag));
        let text = |text: &'a str| (!text.is_empty()).then_some(text);
        let number = |of: fn(&ProcessTag<'a>) -> u64| tag.as_ref().map(of).filter(|n| *n > 0);
        Some(Self {
            pid: process.pid,
            tid: Some(process.tid).filter(|tid| *tid > 0),
            start: tag.map(|tag| tag.start()),
            uid: tag.map(|tag| tag.uid()).filter(|uid| *uid != NO_USER),
            comm: tag
                .map(|tag| String::from_utf8_lossy(tag.comm()))
                .filter(|comm| !comm.is_empty()),
            executable: described.and_then(|process| text(&process.executable)),
            command: described
                .map(ProcessDescription::command)
                .filter(|command| !command.is_empty()),
            cgroup: described.and_then(|process| text(&process.cgroup)),
            cgroup_id: number(ProcessTag::cgroup),
            container: described
                .and_then(ProcessDescription::container)
                .map(JsonContainer::of),
            netns: tag.map(|tag| tag.namespace()).filter(|number| *number > 0),
            role: tag.and_then(|tag| match (tag.is_sender(), tag.listens()) {
                (true, _) => Some("sender"),
                (false, true) => Some("listener"),
                (false, false) => None,
            }),
            found: tag.and_then(|tag| match tag.evidence() {
                Evidence::Held => Some("at start"),
                Evidence::Used => None,
            }),
        })
    }
}

impl<'a> JsonContainer<'a> {
    fn of(container: Container<'a>) -> Self {
        let of = |name: fn(&'a ContainerNames) -> &'a str| container.names.map_or("", name);
        Self {
            id: container.id,
            name: of(|names| &names.name),
            image: of(|names| &names.image),
            runtime: container.runtime,
            pod: container.pod,
            pod_name: of(|names| &names.pod),
        }
    }
}
