/*
 * Names of hosts, ports and protocols, as filter expressions resolve them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef lib_pcap_namedb_h
#define lib_pcap_namedb_h

#include <stdio.h>

#include <pcap/bpf.h>
#include <pcap/funcattrs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A line of /etc/ethers. */
struct pcap_etherent {
	u_char addr[6];
	char name[122];
};
#ifndef PCAP_ETHERS_FILE
#define PCAP_ETHERS_FILE "/etc/ethers"
#endif
/* The next valid line; the result is overwritten by the next call. NULL at the end. */
PCAP_API struct pcap_etherent *pcap_next_etherent(FILE *);

/* Both return six bytes for free(3), or NULL. */
PCAP_API u_char *pcap_ether_hostton(const char *);
PCAP_API u_char *pcap_ether_aton(const char *);

PCAP_API PCAP_DEPRECATED("not reentrant, IPv4 only: use pcap_nametoaddrinfo")
bpf_u_int32 **pcap_nametoaddr(const char *);
/* For freeaddrinfo(3), or NULL. */
PCAP_API struct addrinfo *pcap_nametoaddrinfo(const char *);
/* In host byte order, 0 where there is no such network. */
PCAP_API bpf_u_int32 pcap_nametonetaddr(const char *);

/* 1 and the values, or 0. The protocol is PROTO_UNDEF where TCP and UDP both have the name. */
PCAP_API int pcap_nametoport(const char *, int *, int *);
PCAP_API int pcap_nametoportrange(const char *, int *, int *, int *);

/* The value, or PROTO_UNDEF. */
PCAP_API int pcap_nametoproto(const char *);
PCAP_API int pcap_nametoeproto(const char *);
PCAP_API int pcap_nametollc(const char *);

#define PROTO_UNDEF -1

#ifdef __cplusplus
}
#endif

#endif
