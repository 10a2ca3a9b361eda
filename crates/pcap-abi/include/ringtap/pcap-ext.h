/*
 * WinPcap's extensions to libpcap. Those of ringtap are in <ringtap.h>, which this header includes.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * WinPcap's functions for sources by name (pcap_open, pcap_findalldevs_ex, pcap_createsrcstr,
 * pcap_parsesrcstr) and for sampling (pcap_setsampling) are in <pcap/pcap.h>. What fails returns -1 or
 * NULL, with a text for pcap_geterr(), unless something else is said.
 */
#ifndef RINGTAP_PCAP_EXT_H
#define RINGTAP_PCAP_EXT_H

#include <pcap/pcap.h>
#include <ringtap.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Buffers and when packets are handed over, while the capture runs */

/* The kernel's memory for packets that wait, in bytes. */
PCAP_API int pcap_setbuff(pcap_t *, int bytes);
/* Of the program's own there is none: packets are read where the kernel has put them. */
PCAP_API int pcap_setuserbuffer(pcap_t *, int bytes);
/* How many bytes must have come before a wait ends ahead of its time. */
PCAP_API int pcap_setmintocopy(pcap_t *, int bytes);
/* A descriptor for poll(2), readable when packets are there. It belongs to the handle. */
PCAP_API int pcap_getevent(pcap_t *);

/* ---- Statistics mode: the kernel counts what the filter accepts, and copies nothing */

#define MODE_CAPT 0
#define MODE_STAT 1

/* With MODE_STAT, each read timeout delivers one packet of two 64-bit numbers in this host's byte
 * order: packets, and bytes, since the one before. */
PCAP_API int pcap_setmode(pcap_t *, int mode);

/* ---- Send queues */

typedef struct pcap_send_queue {
	u_int maxlen; /* bytes of the buffer */
	u_int len;    /* of those, in use */
	char *buffer; /* each packet behind its struct pcap_pkthdr */
} pcap_send_queue;

PCAP_API pcap_send_queue *pcap_sendqueue_alloc(u_int bytes);
/* 0, or -1 where there is no room. */
PCAP_API int pcap_sendqueue_queue(pcap_send_queue *, const struct pcap_pkthdr *, const u_char *);
/* Sends all, as fast as it goes or (sync not 0) at the distances of the timestamps; how many bytes
 * of the queue were sent: less than its len after an error. */
PCAP_API u_int pcap_sendqueue_transmit(pcap_t *, pcap_send_queue *, int sync);
PCAP_API void pcap_sendqueue_destroy(pcap_send_queue *);

/* ---- Counters */

/* As struct pcap_stat, and then some. */
struct pcap_stat_ex {
	u_int ps_recv;
	u_int ps_drop;
	u_int ps_ifdrop;
	u_int ps_capt;    /* packets that the program was given */
	u_int ps_sent;    /* packets that it has sent */
	u_int ps_netdrop; /* 0: there is no network between capture and program */
};

/* The counters, in memory of the handle: a struct pcap_stat_ex, whose size is left in *size. */
PCAP_API struct pcap_stat *pcap_stats_ex(pcap_t *, int *size);

/* ---- A capture into a file, by a thread of the library */

/* Until that many bytes or packets were written; 0: no such limit. */
PCAP_API int pcap_live_dump(pcap_t *, const char *path, int bytes, int packets);
/* 1 when it has ended; with wait not 0, after it has. */
PCAP_API int pcap_live_dump_ended(pcap_t *, int wait);

#ifdef __cplusplus
}
#endif

#endif
