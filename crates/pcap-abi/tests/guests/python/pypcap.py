"""A program on pypcap. Arguments: a capture file, and a device on which packets come in."""
import sys

import pcap

reader = pcap.pcap(sys.argv[1])
print(reader.datalink(), reader.dloff, reader.snaplen)
reader.setfilter("tcp port 80")
for ts, data in reader:
    print(f"{ts:.6f}", len(data), bytes(data[:60]).hex())
print(pcap.bpf(b"udp port 53").filter(b"\0" * 60))
try:
    pcap.pcap("no-such-device")
except OSError as error:
    print(error)
print(sorted(n for n in pcap.findalldevs() if n in ("lo", "veth0", "any")))
live = pcap.pcap(sys.argv[2], immediate=True)
live.setfilter("udp")
for number, (ts, data) in enumerate(live):
    print(len(data), bytes(data[:60]).hex())
    if number == 19:
        break
live.sendpacket(b"\x55" * 60)
print(live.stats()[1])
