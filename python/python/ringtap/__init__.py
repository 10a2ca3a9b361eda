"""Capture, read, filter and send network packets on Linux, and meter their flows.

>>> import ringtap
>>> for packet in ringtap.read("web.pcap", "udp port 53"):
...     print(packet.src, packet.length, packet)
10.0.0.2 75 IP 10.0.0.2.40000 > 10.0.0.1.53: 4660+ A? www.example.org. (33)
10.0.0.1 91 IP 10.0.0.1.53 > 10.0.0.2.40000: 4660 1/0/0 A 192.0.2.7 (49)

`read` opens a file, `capture` an interface. Both return a `Reader`: iterate over its packets, or take them
in batches, as columns for Arrow, pandas, Polars and NumPy.
"""

from ._ringtap import (
    Batch,
    Error,
    Filter,
    FilterError,
    Flows,
    Packet,
    Reader,
    __version__,
    build,
    capture,
    devices,
    flows,
    read,
    send,
)

__all__ = [
    "Batch",
    "Error",
    "Filter",
    "FilterError",
    "Flows",
    "Packet",
    "Reader",
    "__version__",
    "build",
    "capture",
    "devices",
    "flows",
    "read",
    "send",
]
