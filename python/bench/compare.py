"""Compares ringtap with scapy, pyshark, dpkt and pypcap on one file, and live with pypcap and `ringtap dump`.

usage: compare.py RINGTAP [PACKETS]

RINGTAP is the command; PACKETS are read (200,000 without it; pyshark and scapy read fewer, and rates are
compared). As root it also captures on a pair of interfaces in a namespace of its own. Prints a table.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ringtap

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import conftest  # noqa: E402

ROUNDS = 5


def make_file(path, packets):
    """UDP, TCP and DNS of many hosts, so that no reader gains by a cache."""
    texts = []
    for number in range(2000):
        host = f"10.{number % 200}.{number // 200}.{number % 250 + 1}"
        texts += [
            conftest.udp(host, 1024 + number, "192.0.2.1", 53, conftest.dns(False)),
            f"eth/ipv4(src={host},dst=198.51.100.7)/tcp(sport={2000 + number},dport=443,flags=A)/zeros(900)",
            f"eth/ipv4(src=203.0.113.9,dst={host})/tcp(sport=80,dport={3000 + number},flags=PA)/zeros(300)",
        ]
    frames = [frame for text in texts for frame in ringtap.build(text)]
    conftest.write_pcap(path, (frames * (packets // len(frames) + 1))[:packets])


def of_table(path, _):
    table = ringtap.read(path).to_arrow(["time", "src", "dst", "src_port", "dst_port", "length"])
    return table.num_rows


def of_packets(path, _):
    count = 0
    for packet in ringtap.read(path):
        found = (packet.time, packet.src, packet.dst, packet.src_port, packet.dst_port, packet.length)
        count += len(found) == 6
    return count


def of_dpkt(path, _):
    import dpkt

    with open(path, "rb") as file:
        return parsed_by_dpkt(dpkt.pcap.Reader(file))


def parsed_by_dpkt(packets):
    import dpkt

    count = 0
    for stamp, data in packets:
        ip = dpkt.ethernet.Ethernet(data).data
        found = (
            stamp,
            dpkt.utils.inet_to_str(ip.src),
            dpkt.utils.inet_to_str(ip.dst),
            ip.data.sport,
            ip.data.dport,
            len(data),
        )
        count += len(found) == 6
    return count


def of_pypcap(path, _):
    import pcap

    return parsed_by_dpkt(pcap.pcap(name=path))


def of_scapy(path, most):
    from scapy.all import IP, TCP, UDP, PcapReader

    count = 0
    with PcapReader(path) as reader:
        for packet in reader:
            ip = packet[IP]
            ports = packet[TCP] if TCP in packet else packet[UDP]
            found = (packet.time, ip.src, ip.dst, ports.sport, ports.dport, packet.wirelen)
            count += len(found) == 6
            if count == most:
                break
    return count


def of_pyshark(path, most):
    import pyshark

    count = 0
    capture = pyshark.FileCapture(path, keep_packets=False)
    for packet in capture:
        ports = packet[packet.transport_layer]
        found = (packet.sniff_time, packet.ip.src, packet.ip.dst, ports.srcport, ports.dstport, packet.length)
        count += len(found) == 6
        if count == most:
            break
    capture.close()
    return count


def rate(read, path, most):
    begun = time.perf_counter()
    return read(path, most) / (time.perf_counter() - begun)


def files(path, packets):
    peers = {
        "ringtap, table": (of_table, packets),
        "ringtap, packets": (of_packets, packets),
        "dpkt": (of_dpkt, packets),
        "pypcap, fields by dpkt": (of_pypcap, packets),
        "scapy": (of_scapy, min(packets, 20_000)),
        "pyshark": (of_pyshark, min(packets, 2_000)),
    }
    rates = {name: [] for name in peers}
    # By turns, so that a disturbance meets all of them.
    for _ in range(ROUNDS):
        for name, (read, most) in peers.items():
            rates[name].append(rate(read, path, most))
    middle = {name: statistics.median(values) for name, values in rates.items()}
    print(f"| reader of a file | packets/s | ringtap's table | ringtap's packets |\n|---|---|---|---|")
    for name, value in middle.items():
        table, packet = middle["ringtap, table"] / value, middle["ringtap, packets"] / value
        print(f"| {name} | {value:,.0f} | {table:.1f} × | {packet:.1f} × |")


def live(command, packets):
    """The share of a flood that reaches batches, and the share that `dump -w` writes."""
    with conftest.namespace():
        conftest.run("ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
        for name in ("left", "right"):
            conftest.run("ip", "link", "set", name, "up")
        flood = [command, "gen", "-i", "left", "--count", str(packets), "--yes", "--size", "60"]
        print("\n| live, a flood of 60-byte packets | captured packets/s |\n|---|---|")
        rates = {"ringtap for Python, batches": [], "ringtap dump -w": [], "pypcap, bytes only": []}
        for _ in range(ROUNDS):
            rates["ringtap for Python, batches"].append(by_batches(flood))
            rates["ringtap dump -w"].append(by_dump(command, flood))
            rates["pypcap, bytes only"].append(by_pypcap(flood))
        middle = {name: statistics.median(values) for name, values in rates.items()}
        for name, value in middle.items():
            print(f"| {name} | {value:,.0f} |")
        print(f"\nratio: {middle['ringtap for Python, batches'] / middle['ringtap dump -w']:.2f}")


def by_batches(flood):
    with ringtap.capture("tcx:right", "udp", direction="in") as capture:
        begun = time.perf_counter()
        sender = subprocess.Popen(flood, stderr=subprocess.DEVNULL)
        count = 0
        while sender.poll() is None:
            count += len(capture.batch(timeout=0.1))
        elapsed = time.perf_counter() - begun
        while (last := len(capture.batch(timeout=0.3))) > 0:
            count += last
        return count / elapsed


def by_pypcap(flood):
    import pcap

    capture = pcap.pcap(name="right", timeout_ms=100, promisc=False)
    capture.setfilter("udp")
    capture.setnonblock()
    begun = time.perf_counter()
    sender = subprocess.Popen(flood, stderr=subprocess.DEVNULL)
    count = 0

    def take(*_):
        nonlocal count
        count += 1

    while sender.poll() is None:
        capture.dispatch(-1, take)
    elapsed = time.perf_counter() - begun
    while capture.dispatch(-1, take) > 0:
        pass
    return count / elapsed


def by_dump(command, flood):
    with tempfile.TemporaryDirectory() as folder:
        words = [command, "dump", "-i", "tcx:right", "-Q", "in", "-w", f"{folder}/x.pcapng", "-Z", "root", "udp"]
        dump = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        begun = time.perf_counter()
        subprocess.run(flood, stderr=subprocess.DEVNULL, check=True)
        elapsed = time.perf_counter() - begun
        time.sleep(0.5)
        dump.send_signal(2)
        text = dump.communicate()[1]
        count = next(line for line in text.splitlines() if line.endswith("packets captured"))
        return int(count.split()[0]) / elapsed


def main():
    command = sys.argv[1]
    packets = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/file.pcap"
        make_file(path, packets)
        files(path, packets)
    if conftest.os.geteuid() == 0:
        live(command, packets * 5)


main()
