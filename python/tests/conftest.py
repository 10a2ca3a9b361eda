"""A small capture that the tests and the examples of the manual read, and namespaces for live tests."""

import ctypes
import os
import struct
import subprocess
import uuid
from contextlib import contextmanager

import pytest
import ringtap

CLIENT, SERVER, RESOLVER = "10.0.0.2", "192.0.2.7", "10.0.0.1"
BEGIN = 1_700_000_000
# From <sched.h>.
CLONE_NEWNET = 0x40000000
NAME = b"\3www\7example\3org\0\0\1\0\1"


def dns(answer):
    flags, answers = (0x8180, 1) if answer else (0x0100, 0)
    message = struct.pack(">HHHHHH", 0x1234, flags, 1, answers, 0, 0) + NAME
    if answer:
        message += b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\x07"
    return message


def udp(source, sport, destination, dport, payload):
    return (
        f"eth/ipv4(src={source},dst={destination})/udp(sport={sport},dport={dport})"
        f"/hex({payload.hex()})"
    )


def tcp(to_server, flags, seq, ack, payload=b""):
    source, sport, destination, dport = CLIENT, 50000, SERVER, 80
    if not to_server:
        source, sport, destination, dport = destination, dport, source, sport
    layers = (
        f"eth/ipv4(src={source},dst={destination})"
        f"/tcp(sport={sport},dport={dport},flags={flags},seq={seq},ack={ack})"
    )
    return layers + (f"/hex({payload.hex()})" if payload else "")


def conversation():
    """A question to DNS with its answer, and a request of HTTP."""
    request = b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n"
    reply = b"HTTP/1.1 204 No Content\r\n\r\n"
    return [
        udp(CLIENT, 40000, RESOLVER, 53, dns(False)),
        udp(RESOLVER, 53, CLIENT, 40000, dns(True)),
        tcp(True, "S", 100, 0),
        tcp(False, "SA", 500, 101),
        tcp(True, "A", 101, 501),
        tcp(True, "PA", 101, 501, request),
        tcp(False, "PA", 501, 101 + len(request), reply),
        tcp(True, "FA", 101 + len(request), 501 + len(reply)),
        tcp(False, "FA", 501 + len(reply), 102 + len(request)),
        tcp(True, "A", 102 + len(request), 502 + len(reply)),
    ]


def write_pcap(path, frames, link_type=1):
    """Writes frames as a pcap file, a millisecond apart."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link_type))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", BEGIN, number * 1000, len(frame), len(frame)))
            file.write(frame)


def frames():
    return [frame for text in conversation() for frame in ringtap.build(text)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with `web.pcap` in it."""
    write_pcap(tmp_path / "web.pcap", frames())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    subprocess.run(words, check=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def wire():
    """This process in a network namespace of its own, with two interfaces that are joined."""
    with namespace():
        run("ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
        for name in ("left", "right"):
            run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
            run("ip", "link", "set", name, "up")
        yield "left", "right"


def set_namespace(descriptor):
    """As os.setns, which Python has from 3.12 on. It moves this thread and those that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextmanager
def namespace():
    name = f"ringtap-{uuid.uuid4().hex[:8]}"
    run("ip", "netns", "add", name)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        inside = os.open(f"/run/netns/{name}", os.O_RDONLY)
        set_namespace(inside)
        os.close(inside)
        yield name
    finally:
        set_namespace(before)
        os.close(before)
        run("ip", "netns", "del", name)
