/* Sizes, places and values of everything that the headers define. Compiled with one set of headers
 * and with the other, it must print the same. */
#include <stddef.h>
#include <stdio.h>

#include <pcap.h>
#include <pcap-bpf.h>
#include <pcap-namedb.h>
#include <pcap/bluetooth.h>
#include <pcap/can_socketcan.h>
#include <pcap/ipnet.h>
#include <pcap/nflog.h>
#include <pcap/sll.h>
#include <pcap/usb.h>
#include <pcap/vlan.h>

/* Its name before libpcap 1.10.5. */
#ifndef PCAP_SOCKET
#define PCAP_SOCKET SOCKET
#endif

#define TYPE(type) \
	printf("%s: %zu bytes, alignment %zu\n", #type, sizeof(type), (size_t)_Alignof(type))
#define FIELD(type, field) \
	printf("  %s at %zu, %zu bytes\n", #field, offsetof(type, field), sizeof(((type *)0)->field))
/* Whether a number is signed. */
#define SIGN(type) printf("%s is %s\n", #type, (type)-1 < (type)1 ? "signed" : "unsigned")

static void of_the_library(void)
{
	TYPE(struct pcap_file_header);
	FIELD(struct pcap_file_header, magic);
	FIELD(struct pcap_file_header, version_major);
	FIELD(struct pcap_file_header, version_minor);
	FIELD(struct pcap_file_header, thiszone);
	FIELD(struct pcap_file_header, sigfigs);
	FIELD(struct pcap_file_header, snaplen);
	FIELD(struct pcap_file_header, linktype);
	TYPE(struct pcap_pkthdr);
	FIELD(struct pcap_pkthdr, ts);
	FIELD(struct pcap_pkthdr, caplen);
	FIELD(struct pcap_pkthdr, len);
	TYPE(struct pcap_stat);
	FIELD(struct pcap_stat, ps_recv);
	FIELD(struct pcap_stat, ps_drop);
	FIELD(struct pcap_stat, ps_ifdrop);
	TYPE(struct pcap_if);
	TYPE(pcap_if_t);
	FIELD(struct pcap_if, next);
	FIELD(struct pcap_if, name);
	FIELD(struct pcap_if, description);
	FIELD(struct pcap_if, addresses);
	FIELD(struct pcap_if, flags);
	TYPE(struct pcap_addr);
	TYPE(pcap_addr_t);
	FIELD(struct pcap_addr, next);
	FIELD(struct pcap_addr, addr);
	FIELD(struct pcap_addr, netmask);
	FIELD(struct pcap_addr, broadaddr);
	FIELD(struct pcap_addr, dstaddr);
	TYPE(struct pcap_rmtauth);
	FIELD(struct pcap_rmtauth, type);
	FIELD(struct pcap_rmtauth, username);
	FIELD(struct pcap_rmtauth, password);
	TYPE(struct pcap_samp);
	FIELD(struct pcap_samp, method);
	FIELD(struct pcap_samp, value);
	TYPE(pcap_direction_t);
	printf("%d %d %d\n", PCAP_D_INOUT, PCAP_D_IN, PCAP_D_OUT);
	TYPE(pcap_handler);
	TYPE(pcap_t *);
	TYPE(pcap_dumper_t *);
	TYPE(PCAP_SOCKET);
}

static void of_the_machine(void)
{
	TYPE(bpf_int32);
	SIGN(bpf_int32);
	TYPE(bpf_u_int32);
	SIGN(bpf_u_int32);
	TYPE(struct bpf_program);
	FIELD(struct bpf_program, bf_len);
	FIELD(struct bpf_program, bf_insns);
	TYPE(struct bpf_insn);
	FIELD(struct bpf_insn, code);
	FIELD(struct bpf_insn, jt);
	FIELD(struct bpf_insn, jf);
	FIELD(struct bpf_insn, k);
	TYPE(struct pcap_etherent);
	FIELD(struct pcap_etherent, addr);
	FIELD(struct pcap_etherent, name);
}

static void of_packets(void)
{
	TYPE(struct sll_header);
	FIELD(struct sll_header, sll_pkttype);
	FIELD(struct sll_header, sll_hatype);
	FIELD(struct sll_header, sll_halen);
	FIELD(struct sll_header, sll_addr);
	FIELD(struct sll_header, sll_protocol);
	TYPE(struct sll2_header);
	FIELD(struct sll2_header, sll2_protocol);
	FIELD(struct sll2_header, sll2_reserved_mbz);
	FIELD(struct sll2_header, sll2_if_index);
	FIELD(struct sll2_header, sll2_hatype);
	FIELD(struct sll2_header, sll2_pkttype);
	FIELD(struct sll2_header, sll2_halen);
	FIELD(struct sll2_header, sll2_addr);
	TYPE(struct vlan_tag);
	FIELD(struct vlan_tag, vlan_tpid);
	FIELD(struct vlan_tag, vlan_tci);
	TYPE(pcap_can_socketcan_hdr);
	FIELD(pcap_can_socketcan_hdr, can_id);
	FIELD(pcap_can_socketcan_hdr, payload_length);
	FIELD(pcap_can_socketcan_hdr, fd_flags);
	FIELD(pcap_can_socketcan_hdr, reserved1);
	FIELD(pcap_can_socketcan_hdr, reserved2);
#ifdef WITH_CAN_XL
	TYPE(pcap_can_socketcan_xl_hdr);
	FIELD(pcap_can_socketcan_xl_hdr, priority_vcid);
	FIELD(pcap_can_socketcan_xl_hdr, flags);
	FIELD(pcap_can_socketcan_xl_hdr, sdu_type);
	FIELD(pcap_can_socketcan_xl_hdr, payload_length);
	FIELD(pcap_can_socketcan_xl_hdr, acceptance_field);
#endif
	TYPE(pcap_bluetooth_h4_header);
	FIELD(pcap_bluetooth_h4_header, direction);
	TYPE(pcap_bluetooth_linux_monitor_header);
	FIELD(pcap_bluetooth_linux_monitor_header, adapter_id);
	FIELD(pcap_bluetooth_linux_monitor_header, opcode);
}

static void of_netfilter(void)
{
	TYPE(nflog_hdr_t);
	FIELD(nflog_hdr_t, nflog_family);
	FIELD(nflog_hdr_t, nflog_version);
	FIELD(nflog_hdr_t, nflog_rid);
	TYPE(nflog_tlv_t);
	FIELD(nflog_tlv_t, tlv_length);
	FIELD(nflog_tlv_t, tlv_type);
	TYPE(nflog_packet_hdr_t);
	FIELD(nflog_packet_hdr_t, hw_protocol);
	FIELD(nflog_packet_hdr_t, hook);
	FIELD(nflog_packet_hdr_t, pad);
	TYPE(nflog_hwaddr_t);
	FIELD(nflog_hwaddr_t, hw_addrlen);
	FIELD(nflog_hwaddr_t, pad);
	FIELD(nflog_hwaddr_t, hw_addr);
	TYPE(nflog_timestamp_t);
	FIELD(nflog_timestamp_t, sec);
	FIELD(nflog_timestamp_t, usec);
}

static void of_usb(void)
{
	TYPE(pcap_usb_setup);
	FIELD(pcap_usb_setup, bmRequestType);
	FIELD(pcap_usb_setup, bRequest);
	FIELD(pcap_usb_setup, wValue);
	FIELD(pcap_usb_setup, wIndex);
	FIELD(pcap_usb_setup, wLength);
	TYPE(iso_rec);
	FIELD(iso_rec, error_count);
	FIELD(iso_rec, numdesc);
	TYPE(pcap_usb_header);
	FIELD(pcap_usb_header, id);
	FIELD(pcap_usb_header, event_type);
	FIELD(pcap_usb_header, transfer_type);
	FIELD(pcap_usb_header, endpoint_number);
	FIELD(pcap_usb_header, device_address);
	FIELD(pcap_usb_header, bus_id);
	FIELD(pcap_usb_header, setup_flag);
	FIELD(pcap_usb_header, data_flag);
	FIELD(pcap_usb_header, ts_sec);
	FIELD(pcap_usb_header, ts_usec);
	FIELD(pcap_usb_header, status);
	FIELD(pcap_usb_header, urb_len);
	FIELD(pcap_usb_header, data_len);
	FIELD(pcap_usb_header, setup);
	TYPE(pcap_usb_header_mmapped);
	FIELD(pcap_usb_header_mmapped, s.iso);
	FIELD(pcap_usb_header_mmapped, interval);
	FIELD(pcap_usb_header_mmapped, start_frame);
	FIELD(pcap_usb_header_mmapped, xfer_flags);
	FIELD(pcap_usb_header_mmapped, ndesc);
	TYPE(usb_isodesc);
	FIELD(usb_isodesc, status);
	FIELD(usb_isodesc, offset);
	FIELD(usb_isodesc, len);
	FIELD(usb_isodesc, pad);
}

int main(void)
{
	of_the_library();
	of_the_machine();
	of_packets();
	of_netfilter();
	of_usb();
	return 0;
}
