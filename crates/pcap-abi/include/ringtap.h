/*
 * ringtap's extensions to libpcap: packets in blocks, all loss counters, engines, filters as eBPF.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The functions take handles of <pcap/pcap.h>. Those that return an int return -1 for an error, whose text
 * pcap_geterr() returns.
 */
#ifndef RINGTAP_H
#define RINGTAP_H

#include <pcap/pcap.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Blocks: many packets with one call, without a copy */

/* A packet, at the place to which the kernel or the reader of a file has written it. */
struct ringtap_packet {
	struct pcap_pkthdr header;
	const u_char *data; /* header.caplen bytes */
};

/* Waits for packets as pcap_next_ex() does, and writes those of one block to an array that has room for this
 * many. Returns how many it has written; 0 after a timeout, or if there are none and the descriptor may have been
 * readable because of the block before; -2 (PCAP_ERROR_BREAK) at the end of a file, or after pcap_breakloop(). The
 * next call returns the packets of the block for which there was no room. The bytes stay valid until the next call
 * with the handle, by any thread, such as for more packets, for counters or for another filter. pcap_breakloop() may
 * be called meanwhile. */
PCAP_API int ringtap_next_block(pcap_t *, struct ringtap_packet *, int room);

/* ---- Counters in 64 bits */

/* A counter that the engine does not have. */
#define RINGTAP_UNKNOWN UINT64_MAX

/* All counters since the capture was opened. Each lost packet is counted once, where it was lost. */
struct ringtap_stats {
	uint64_t received;               /* packets that the filter accepted */
	uint64_t captured;               /* packets that the program was given */
	uint64_t sent;                   /* packets that the program has sent */
	uint64_t dropped_at_hook;        /* lost because the program in the kernel could not store them */
	uint64_t left_out_by_sampling;   /* not lost: pcap_setsampling() left them out */
	uint64_t dropped_in_ring;        /* lost because the memory for waiting packets was full */
	uint64_t dropped_by_interface;   /* lost by the adapter or its driver */
	uint64_t dropped_by_application; /* lost because the program did not take them */
	uint64_t freezes;                /* times that the memory became full */
};

/* size: sizeof(struct ringtap_stats). Later versions may add counters at the end. */
PCAP_API int ringtap_stats(pcap_t *, struct ringtap_stats *, size_t size);

/* ---- Engines */

/* Returns the name of an engine: "packet", "tcx", "xdp", ... They are numbered from 0 on; NULL for a larger
 * number. The thread's next call uses the memory again. */
PCAP_API const char *ringtap_engine_name(u_int number);
/* Sets the engine of a handle that is not activated yet. */
PCAP_API int ringtap_set_engine(pcap_t *, const char *engine);
/* Returns the engine of an activated live capture, NULL for other handles. The thread's next call uses the
 * memory again. */
PCAP_API const char *ringtap_engine(pcap_t *);

/* ---- Filters as eBPF */

#define RINGTAP_HOOK_SOCKET 0
#define RINGTAP_HOOK_TCX 1
#define RINGTAP_HOOK_XDP 2
#define RINGTAP_HOOK_XDP_FRAGS 3

/* Translates a filter to an eBPF program for one of the hooks. The program returns how many bytes of a packet to
 * keep. *instructions points to *count instructions; free(3) them. The text of an error is in errbuf. */
PCAP_API int ringtap_filter_ebpf(const struct bpf_program *, int hook, uint64_t **instructions,
	u_int *count, char *errbuf);

#ifdef __cplusplus
}
#endif

#endif
