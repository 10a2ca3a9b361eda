"""A program on pcapy-ng. Arguments: a capture file, and a device on which packets come in."""
import sys

import pcapy

reader = pcapy.open_offline(sys.argv[1])
print(reader.datalink())
reader.setfilter("tcp port 80")
reader.loop(-1, lambda header, data: print(header.getts(), header.getcaplen(), header.getlen(), data[:60].hex()))
print(pcapy.compile(pcapy.DLT_EN10MB, 65535, "udp", 1, 0).filter(b"\0" * 60))
for source in (lambda: pcapy.open_offline("missing.pcap"), lambda: pcapy.open_live("no-such-device", 100, 0, 10)):
    try:
        source()
    except pcapy.PcapError as error:
        print(error)
print(sorted(n for n in pcapy.findalldevs() if n in ("lo", "veth0", "any")))
live = pcapy.open_live(sys.argv[2], 65535, 1, 50)
live.setfilter("udp")
seen = 0
while seen < 20:
    header, data = live.next()
    if header is not None:
        print(header.getlen(), data[:60].hex())
        seen += 1
live.sendpacket(b"\x55" * 60)
print(live.stats()[1])
