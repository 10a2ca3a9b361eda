// A program on Go's gopacket/pcap, which uses libpcap through cgo. Arguments: a capture file, and a
// device on which packets come in. `cargo xtask programs` builds and runs it.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcap"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func offline(file string) {
	handle, err := pcap.OpenOffline(file)
	check(err)
	defer handle.Close()
	fmt.Println(handle.LinkType(), handle.SnapLen())
	check(handle.SetBPFFilter("tcp port 80"))
	source := gopacket.NewPacketSource(handle, handle.LinkType())
	for packet := range source.Packets() {
		info := packet.Metadata().CaptureInfo
		fmt.Println(info.Timestamp.UTC(), info.CaptureLength, info.Length, packet.TransportLayer().TransportFlow())
	}
}

func filters() {
	program, err := pcap.CompileBPFFilter(layers.LinkTypeEthernet, 65535, "udp port 53")
	check(err)
	fmt.Println(len(program) > 0)
	_, err = pcap.CompileBPFFilter(layers.LinkTypeEthernet, 65535, "udp port")
	fmt.Println(err != nil)
	bpf, err := pcap.NewBPF(layers.LinkTypeEthernet, 65535, "greater 50")
	check(err)
	info := gopacket.CaptureInfo{CaptureLength: 60, Length: 60}
	fmt.Println(bpf.Matches(info, make([]byte, 60)))
}

func errors() {
	_, err := pcap.OpenOffline("missing.pcap")
	fmt.Println(err)
	_, err = pcap.OpenLive("no-such-device", 100, false, time.Second)
	fmt.Println(err)
}

func devices() {
	all, err := pcap.FindAllDevs()
	check(err)
	var names []string
	for _, device := range all {
		if device.Name == "lo" || device.Name == "veth0" || device.Name == "any" {
			names = append(names, fmt.Sprint(device.Name, " ", device.Flags, " ", len(device.Addresses)))
		}
	}
	sort.Strings(names)
	fmt.Println(names)
}

func live(device string) {
	inactive, err := pcap.NewInactiveHandle(device)
	check(err)
	defer inactive.CleanUp()
	check(inactive.SetSnapLen(65535))
	check(inactive.SetPromisc(true))
	check(inactive.SetTimeout(50 * time.Millisecond))
	handle, err := inactive.Activate()
	check(err)
	check(handle.SetBPFFilter("udp"))
	check(handle.SetDirection(pcap.DirectionIn))
	for seen := 0; seen < 20; {
		data, info, err := handle.ReadPacketData()
		if err == pcap.NextErrorTimeoutExpired {
			continue
		}
		check(err)
		fmt.Printf("%d %x\n", info.Length, data[:60])
		seen++
	}
	check(handle.WritePacketData(make([]byte, 60)))
	stats, err := handle.Stats()
	check(err)
	fmt.Println("dropped", stats.PacketsDropped)
	handle.Close()
}

func main() {
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	offline(os.Args[1])
	filters()
	errors()
	devices()
	live(os.Args[2])
}
