//! The process of a packet.

use ringtap_packet::process::{
    Container, ContainerNames, Evidence, PacketProcess, ProcessDescription, ProcessTable,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Members;

/// The user that is not recorded.
const NO_USER: u32 = u32::MAX;

pub(super) struct Process<'a>(pub(super) PacketProcess<'a>, pub(super) &'a ProcessTable);

impl Serialize for Process<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(process, table) = self;
        let tag = process.tag;
        let described = tag.as_ref().and_then(|tag| table.get(tag));
        let of = |text: fn(&ProcessDescription) -> &str| described.map_or("", text);
        let comm = tag.as_ref().map(|tag| String::from_utf8_lossy(tag.comm()));
        let command = described.map(ProcessDescription::command);
        let container = described.and_then(ProcessDescription::container);
        let mut members = Members(serializer.serialize_map(None)?);
        members.add("pid", &process.pid)?;
        members.some("tid", Some(process.tid).filter(|tid| *tid > 0))?;
        members.some("start", tag.map(|tag| tag.start()))?;
        let uid = tag.map(|tag| tag.uid());
        members.some("uid", uid.filter(|uid| *uid != NO_USER))?;
        members.text("comm", &comm.unwrap_or_default())?;
        members.text("executable", of(|process| &process.executable))?;
        members.text("command", &command.unwrap_or_default())?;
        members.text("cgroup", of(|process| &process.cgroup))?;
        let cgroup = tag.map(|tag| tag.cgroup());
        members.some("cgroup_id", cgroup.filter(|id| *id > 0))?;
        members.some("container", container.map(JsonContainer))?;
        let namespace = tag.map(|tag| tag.namespace());
        members.some("netns", namespace.filter(|number| *number > 0))?;
        // The role is left out if the socket is the packet's own.
        let role = tag.and_then(|tag| match (tag.is_sender(), tag.listens()) {
            (true, _) => Some("sender"),
            (false, true) => Some("listener"),
            (false, false) => None,
        });
        members.some("role", role)?;
        // How it was found is left out if the process used the socket during the capture.
        let is_held = tag.is_some_and(|tag| tag.evidence() == Evidence::Held);
        members.some("found", is_held.then_some("at start"))?;
        members.0.end()
    }
}

struct JsonContainer<'a>(Container<'a>);

impl Serialize for JsonContainer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let container = &self.0;
        let of = |name: fn(&ContainerNames) -> &str| container.names.map_or("", name);
        let mut members = Members(serializer.serialize_map(None)?);
        members.add("id", &container.id)?;
        members.text("name", of(|names| &names.name))?;
        members.text("image", of(|names| &names.image))?;
        members.text("runtime", container.runtime)?;
        members.some("pod", container.pod)?;
        members.text("pod_name", of(|names| &names.pod))?;
        members.0.end()
    }
}
