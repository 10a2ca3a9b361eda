/*
 * Capturing packets, reading and writing capture files, sending packets.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The interface is libpcap's, version 1.10, with what version 1.11 adds, and the functions of
 * <ringtap/pcap-ext.h> beside it.
 * Where nothing else is said, functions return 0 or a number that is not negative on success, and
 * one of PCAP_ERROR_ on failure, with a text for pcap_geterr(). An errbuf has room for
 * PCAP_ERRBUF_SIZE bytes.
 */
#ifndef lib_pcap_pcap_h
#define lib_pcap_pcap_h

#include <pcap/funcattrs.h>
#include <pcap/pcap-inttypes.h>

#include <sys/types.h>
#include <sys/time.h>

#include <pcap/socket.h>

#ifndef PCAP_DONT_INCLUDE_PCAP_BPF_H
#include <pcap/bpf.h>
#endif

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the file format. */
#define PCAP_VERSION_MAJOR 2
#define PCAP_VERSION_MINOR 4

#define PCAP_ERRBUF_SIZE 256

/* A <net/bpf.h> of other origin may lack these. */
#if BPF_RELEASE - 0 < 199406
typedef int bpf_int32;
typedef u_int bpf_u_int32;
#endif

typedef struct pcap pcap_t;
typedef struct pcap_dumper pcap_dumper_t;
typedef struct pcap_if pcap_if_t;
typedef struct pcap_addr pcap_addr_t;

/* The first 24 bytes of a capture file, in the byte order of its writer. */
struct pcap_file_header {
	bpf_u_int32 magic;
	u_short version_major;
	u_short version_minor;
	bpf_int32 thiszone;  /* 0 */
	bpf_u_int32 sigfigs; /* 0 */
	bpf_u_int32 snaplen;
	bpf_u_int32 linktype; /* LINKTYPE_ value, and LT_FCS_ in the upper bits */
};

#define LT_LINKTYPE(x) ((x) & 0x0000FFFF)
#define LT_LINKTYPE_EXT(x) ((x) & 0xFFFF0000)
#define LT_RESERVED1(x) ((x) & 0x03FF0000)
#define LT_FCS_LENGTH_PRESENT(x) ((x) & 0x04000000)
#define LT_FCS_LENGTH(x) (((x) & 0xF0000000) >> 28)
#define LT_FCS_DATALINK_EXT(x) ((((x) & 0xF) << 28) | 0x04000000)

typedef enum {
	PCAP_D_INOUT = 0,
	PCAP_D_IN,
	PCAP_D_OUT
} pcap_direction_t;

/* What is known of a packet besides its bytes. In a file the time's two fields have 32 bits. */
struct pcap_pkthdr {
	struct timeval ts;  /* tv_usec holds nanoseconds where that precision was asked for */
	bpf_u_int32 caplen; /* bytes at hand */
	bpf_u_int32 len;    /* bytes of the packet */
};

struct pcap_stat {
	u_int ps_recv;   /* packets that the filter let through */
	u_int ps_drop;   /* packets for which there was no room */
	u_int ps_ifdrop; /* packets that the interface dropped */
};

/* A device of pcap_findalldevs(). */
struct pcap_if {
	struct pcap_if *next;
	char *name;
	char *description; /* or NULL */
	struct pcap_addr *addresses;
	bpf_u_int32 flags; /* PCAP_IF_ */
};

#define PCAP_IF_LOOPBACK 0x00000001
#define PCAP_IF_UP 0x00000002
#define PCAP_IF_RUNNING 0x00000004
#define PCAP_IF_WIRELESS 0x00000008
#define PCAP_IF_CONNECTION_STATUS 0x00000030 /* mask of the following */
#define PCAP_IF_CONNECTION_STATUS_UNKNOWN 0x00000000
#define PCAP_IF_CONNECTION_STATUS_CONNECTED 0x00000010
#define PCAP_IF_CONNECTION_STATUS_DISCONNECTED 0x00000020
#define PCAP_IF_CONNECTION_STATUS_NOT_APPLICABLE 0x00000030

/* An address of a device; all but addr may be NULL. */
struct pcap_addr {
	struct pcap_addr *next;
	struct sockaddr *addr;
	struct sockaddr *netmask;
	struct sockaddr *broadaddr;
	struct sockaddr *dstaddr;
};

typedef void (*pcap_handler)(u_char *user, const struct pcap_pkthdr *, const u_char *bytes);

/* What functions return besides 0. */
#define PCAP_ERROR -1
#define PCAP_ERROR_BREAK -2 /* ended by pcap_breakloop() */
#define PCAP_ERROR_NOT_ACTIVATED -3
#define PCAP_ERROR_ACTIVATED -4
#define PCAP_ERROR_NO_SUCH_DEVICE -5
#define PCAP_ERROR_RFMON_NOTSUP -6
#define PCAP_ERROR_NOT_RFMON -7
#define PCAP_ERROR_PERM_DENIED -8
#define PCAP_ERROR_IFACE_NOT_UP -9
#define PCAP_ERROR_CANTSET_TSTAMP_TYPE -10
#define PCAP_ERROR_PROMISC_PERM_DENIED -11
#define PCAP_ERROR_TSTAMP_PRECISION_NOTSUP -12
#define PCAP_ERROR_CAPTURE_NOTSUP -13 /* libpcap 1.10.5: the system has no way to capture */

/* pcap_activate() succeeded, but: */
#define PCAP_WARNING 1
#define PCAP_WARNING_PROMISC_NOTSUP 2
#define PCAP_WARNING_TSTAMP_TYPE_NOTSUP 3

/* The netmask of pcap_compile() when it is not known. */
#define PCAP_NETMASK_UNKNOWN 0xffffffff

/* ---- The library as a whole */

#define PCAP_CHAR_ENC_LOCAL 0x00000000U
#define PCAP_CHAR_ENC_UTF_8 0x00000001U

/* Chooses the encoding of all strings, once, before anything else is called. */
PCAP_AVAILABLE_1_10
PCAP_API int pcap_init(unsigned int options, char *errbuf);

PCAP_AVAILABLE_0_8
PCAP_API const char *pcap_lib_version(void);

/* ---- Devices */

PCAP_AVAILABLE_0_7
PCAP_API int pcap_findalldevs(pcap_if_t **, char *errbuf);
PCAP_AVAILABLE_0_7
PCAP_API void pcap_freealldevs(pcap_if_t *);

PCAP_AVAILABLE_0_4
PCAP_DEPRECATED("use the first device of pcap_findalldevs")
PCAP_API char *pcap_lookupdev(char *errbuf);

/* A device's IPv4 network and mask, in network byte order. */
PCAP_AVAILABLE_0_4
PCAP_API int pcap_lookupnet(const char *, bpf_u_int32 *, bpf_u_int32 *, char *errbuf);

/* ---- A live capture: create, set, activate */

PCAP_AVAILABLE_1_0
PCAP_API pcap_t *pcap_create(const char *device, char *errbuf);

PCAP_AVAILABLE_1_0
PCAP_API int pcap_set_snaplen(pcap_t *, int bytes);
PCAP_AVAILABLE_1_0
PCAP_API int pcap_set_promisc(pcap_t *, int);
PCAP_AVAILABLE_1_0
PCAP_API int pcap_can_set_rfmon(pcap_t *);
PCAP_AVAILABLE_1_0
PCAP_API int pcap_set_rfmon(pcap_t *, int);
PCAP_AVAILABLE_1_0
PCAP_API int pcap_set_timeout(pcap_t *, int milliseconds);
PCAP_AVAILABLE_1_2
PCAP_API int pcap_set_tstamp_type(pcap_t *, int);
PCAP_AVAILABLE_1_5
PCAP_API int pcap_set_immediate_mode(pcap_t *, int);
PCAP_AVAILABLE_1_0
PCAP_API int pcap_set_buffer_size(pcap_t *, int bytes);
PCAP_AVAILABLE_1_5
PCAP_API int pcap_set_tstamp_precision(pcap_t *, int);
PCAP_AVAILABLE_1_5
PCAP_API int pcap_get_tstamp_precision(pcap_t *);
#ifdef __linux__
/* One protocol's packets only, as of packet(7). */
PCAP_AVAILABLE_1_9
PCAP_API int pcap_set_protocol_linux(pcap_t *, int);
#endif

/* 0, a warning above 0, or an error below. */
PCAP_AVAILABLE_1_0
PCAP_API int pcap_activate(pcap_t *);

/* All of it in one call. */
PCAP_AVAILABLE_0_4
PCAP_API pcap_t *pcap_open_live(const char *device, int snaplen, int promisc, int milliseconds,
	char *errbuf);

PCAP_AVAILABLE_0_4
PCAP_API void pcap_close(pcap_t *);

/* ---- Time */

#define PCAP_TSTAMP_HOST 0                 /* the host's, as the system likes */
#define PCAP_TSTAMP_HOST_LOWPREC 1         /* cheap */
#define PCAP_TSTAMP_HOST_HIPREC 2          /* precise */
#define PCAP_TSTAMP_ADAPTER 3              /* the device's, in step with the host's clock */
#define PCAP_TSTAMP_ADAPTER_UNSYNCED 4     /* the device's own clock */
#define PCAP_TSTAMP_HOST_HIPREC_UNSYNCED 5 /* precise, of a clock that nobody sets */

PCAP_AVAILABLE_1_2
PCAP_API int pcap_list_tstamp_types(pcap_t *, int **);
PCAP_AVAILABLE_1_2
PCAP_API void pcap_free_tstamp_types(int *);
PCAP_AVAILABLE_1_2
PCAP_API int pcap_tstamp_type_name_to_val(const char *);
PCAP_AVAILABLE_1_2
PCAP_API const char *pcap_tstamp_type_val_to_name(int);
PCAP_AVAILABLE_1_2
PCAP_API const char *pcap_tstamp_type_val_to_description(int);

#define PCAP_TSTAMP_PRECISION_MICRO 0
#define PCAP_TSTAMP_PRECISION_NANO 1

/* ---- Files, and handles without packets */

PCAP_AVAILABLE_0_4
PCAP_API pcap_t *pcap_open_offline(const char *path, char *errbuf);
PCAP_AVAILABLE_1_5
PCAP_API pcap_t *pcap_open_offline_with_tstamp_precision(const char *path, u_int, char *errbuf);

/* The file belongs to the handle from here on. */
PCAP_AVAILABLE_0_9
PCAP_API pcap_t *pcap_fopen_offline(FILE *, char *errbuf);
PCAP_AVAILABLE_1_5
PCAP_API pcap_t *pcap_fopen_offline_with_tstamp_precision(FILE *, u_int, char *errbuf);

/* For compiling filters and writing files. */
PCAP_AVAILABLE_0_6
PCAP_API pcap_t *pcap_open_dead(int linktype, int snaplen);
PCAP_AVAILABLE_1_5
PCAP_API pcap_t *pcap_open_dead_with_tstamp_precision(int linktype, int snaplen, u_int);

/* ---- Reading packets */

/* Until that many packets, the end, an error, or pcap_breakloop(); all for a count of 0 or less. */
PCAP_AVAILABLE_0_4
PCAP_API int pcap_loop(pcap_t *, int count, pcap_handler, u_char *user);

/* What one read of the source brings, that many at most; returns how many. */
PCAP_AVAILABLE_0_4
PCAP_API int pcap_dispatch(pcap_t *, int count, pcap_handler, u_char *user);

/* The next packet or NULL; it is there until the next call for the handle. */
PCAP_AVAILABLE_0_4
PCAP_API const u_char *pcap_next(pcap_t *, struct pcap_pkthdr *);

/* 1 with a packet, 0 when the time is over, PCAP_ERROR_BREAK at the end of a file. */
PCAP_AVAILABLE_0_8
PCAP_API int pcap_next_ex(pcap_t *, struct pcap_pkthdr **, const u_char **);

/* For signal handlers and other threads too. */
PCAP_AVAILABLE_0_8
PCAP_API void pcap_breakloop(pcap_t *);

PCAP_AVAILABLE_0_7
PCAP_API int pcap_getnonblock(pcap_t *, char *errbuf);
PCAP_AVAILABLE_0_7
PCAP_API int pcap_setnonblock(pcap_t *, int, char *errbuf);

/* For select(2), poll(2), epoll(7), or -1. */
PCAP_AVAILABLE_0_8
PCAP_API int pcap_get_selectable_fd(pcap_t *);
/* How long to wait on it at most, or NULL. */
PCAP_AVAILABLE_1_9
PCAP_API const struct timeval *pcap_get_required_select_timeout(pcap_t *);

PCAP_AVAILABLE_0_4
PCAP_API int pcap_stats(pcap_t *, struct pcap_stat *);

PCAP_AVAILABLE_0_9
PCAP_API int pcap_setdirection(pcap_t *, pcap_direction_t);

/* ---- Filters */

PCAP_AVAILABLE_0_4
PCAP_API int pcap_compile(pcap_t *, struct bpf_program *, const char *, int optimize,
	bpf_u_int32 netmask);
PCAP_AVAILABLE_0_5
PCAP_DEPRECATED("use pcap_open_dead, pcap_compile and pcap_close")
PCAP_API int pcap_compile_nopcap(int snaplen, int linktype, struct bpf_program *, const char *,
	int optimize, bpf_u_int32 netmask);
PCAP_AVAILABLE_0_6
PCAP_API void pcap_freecode(struct bpf_program *);
PCAP_AVAILABLE_0_4
PCAP_API int pcap_setfilter(pcap_t *, struct bpf_program *);
/* What the program returns for the packet: 0 for no match. */
PCAP_AVAILABLE_1_0
PCAP_API int pcap_offline_filter(const struct bpf_program *, const struct pcap_pkthdr *,
	const u_char *);

/* ---- Sending */

/* How many bytes were sent. */
PCAP_AVAILABLE_0_9
PCAP_API int pcap_inject(pcap_t *, const void *, size_t);
/* 0 when all of it was sent. */
PCAP_AVAILABLE_0_8
PCAP_API int pcap_sendpacket(pcap_t *, const u_char *, int);

/* ---- Errors as text */

PCAP_AVAILABLE_0_4
PCAP_API char *pcap_geterr(pcap_t *);
PCAP_AVAILABLE_0_4
PCAP_API void pcap_perror(pcap_t *, const char *prefix);
PCAP_AVAILABLE_1_0
PCAP_API const char *pcap_statustostr(int);
PCAP_AVAILABLE_0_4
PCAP_API const char *pcap_strerror(int);

/* ---- Link-layer header types: DLT_ values */

PCAP_AVAILABLE_0_4
PCAP_API int pcap_datalink(pcap_t *);
PCAP_AVAILABLE_1_0
PCAP_API int pcap_datalink_ext(pcap_t *);
PCAP_AVAILABLE_0_8
PCAP_API int pcap_list_datalinks(pcap_t *, int **);
PCAP_AVAILABLE_0_8
PCAP_API void pcap_free_datalinks(int *);
PCAP_AVAILABLE_0_8
PCAP_API int pcap_set_datalink(pcap_t *, int);
PCAP_AVAILABLE_0_8
PCAP_API int pcap_datalink_name_to_val(const char *);
PCAP_AVAILABLE_0_8
PCAP_API const char *pcap_datalink_val_to_name(int);
PCAP_AVAILABLE_0_8
PCAP_API const char *pcap_datalink_val_to_description(int);
/* "DLT n" where there is no description; the result is overwritten by the next call. */
PCAP_AVAILABLE_1_10
PCAP_API const char *pcap_datalink_val_to_description_or_dlt(int);

/* ---- What a handle is */

PCAP_AVAILABLE_0_4
PCAP_API int pcap_snapshot(pcap_t *);
PCAP_AVAILABLE_0_4
PCAP_API int pcap_is_swapped(pcap_t *);
PCAP_AVAILABLE_0_4
PCAP_API int pcap_major_version(pcap_t *);
PCAP_AVAILABLE_0_4
PCAP_API int pcap_minor_version(pcap_t *);
PCAP_AVAILABLE_1_9
PCAP_API int pcap_bufsize(pcap_t *);
/* The stream of a handle on a file, else NULL. */
PCAP_AVAILABLE_0_4
PCAP_API FILE *pcap_file(pcap_t *);
PCAP_AVAILABLE_0_4
PCAP_API int pcap_fileno(pcap_t *);

/* ---- Writing files */

PCAP_AVAILABLE_0_4
PCAP_API pcap_dumper_t *pcap_dump_open(pcap_t *, const char *path);
PCAP_AVAILABLE_0_9
PCAP_API pcap_dumper_t *pcap_dump_fopen(pcap_t *, FILE *);
PCAP_AVAILABLE_1_7
PCAP_API pcap_dumper_t *pcap_dump_open_append(pcap_t *, const char *path);
/* A pcap_handler whose user is the pcap_dumper_t. */
PCAP_AVAILABLE_0_4
PCAP_API void pcap_dump(u_char *, const struct pcap_pkthdr *, const u_char *);
PCAP_AVAILABLE_0_8
PCAP_API int pcap_dump_flush(pcap_dumper_t *);
PCAP_AVAILABLE_0_8
PCAP_API FILE *pcap_dump_file(pcap_dumper_t *);
PCAP_AVAILABLE_0_9
PCAP_API long pcap_dump_ftell(pcap_dumper_t *);
PCAP_AVAILABLE_1_9
PCAP_API int64_t pcap_dump_ftell64(pcap_dumper_t *);
PCAP_AVAILABLE_0_4
PCAP_API void pcap_dump_close(pcap_dumper_t *);

/* ---- Sources by one string: file:///path, rpcap://device; local ones only */

#define PCAP_BUF_SIZE 1024 /* bytes of a source string and its parts */

#define PCAP_SRC_FILE 2
#define PCAP_SRC_IFLOCAL 3
#define PCAP_SRC_IFREMOTE 4

#define PCAP_SRC_FILE_STRING "file://"
#define PCAP_SRC_IF_STRING "rpcap://"

#define PCAP_OPENFLAG_PROMISCUOUS 0x00000001
#define PCAP_OPENFLAG_DATATX_UDP 0x00000002
#define PCAP_OPENFLAG_NOCAPTURE_RPCAP 0x00000004
#define PCAP_OPENFLAG_NOCAPTURE_LOCAL 0x00000008
#define PCAP_OPENFLAG_MAX_RESPONSIVENESS 0x00000010

#define RPCAP_RMTAUTH_NULL 0
#define RPCAP_RMTAUTH_PWD 1
#define RPCAP_HOSTLIST_SIZE 1024

/* For remote sources, which there are none of: NULL, or RPCAP_RMTAUTH_NULL. */
struct pcap_rmtauth {
	int type;
	char *username;
	char *password;
};

PCAP_AVAILABLE_1_9
PCAP_API pcap_t *pcap_open(const char *source, int snaplen, int flags, int milliseconds,
	struct pcap_rmtauth *, char *errbuf);
PCAP_AVAILABLE_1_9
PCAP_API int pcap_createsrcstr(char *source, int type, const char *host, const char *port,
	const char *name, char *errbuf);
PCAP_AVAILABLE_1_9
PCAP_API int pcap_parsesrcstr(const char *source, int *type, char *host, char *port, char *name,
	char *errbuf);
PCAP_AVAILABLE_1_9
PCAP_API int pcap_findalldevs_ex(const char *source, struct pcap_rmtauth *, pcap_if_t **,
	char *errbuf);

#define PCAP_SAMP_NOSAMP 0
#define PCAP_SAMP_1_EVERY_N 1        /* value: N */
#define PCAP_SAMP_FIRST_AFTER_N_MS 2 /* value: milliseconds */

struct pcap_samp {
	int method;
	int value;
};

/* The settings of a handle that is activated, to be changed in place. */
PCAP_AVAILABLE_1_9
PCAP_API struct pcap_samp *pcap_setsampling(pcap_t *);

/* Daemons of remote captures that connect to their clients: these fail. */
PCAP_AVAILABLE_1_9
PCAP_API PCAP_SOCKET pcap_remoteact_accept(const char *address, const char *port, const char *hostlist,
	char *connectinghost, struct pcap_rmtauth *, char *errbuf);
PCAP_AVAILABLE_1_10
PCAP_API PCAP_SOCKET pcap_remoteact_accept_ex(const char *address, const char *port, const char *hostlist,
	char *connectinghost, struct pcap_rmtauth *, int uses_ssl, char *errbuf);
PCAP_AVAILABLE_1_9
PCAP_API int pcap_remoteact_list(char *hostlist, char separator, int size, char *errbuf);
PCAP_AVAILABLE_1_9
PCAP_API int pcap_remoteact_close(const char *host, char *errbuf);
PCAP_AVAILABLE_1_9
PCAP_API void pcap_remoteact_cleanup(void);

/* ---- Sets of options. No function takes one yet. */

enum pcap_option_name {
	PON_TSTAMP_PRECISION = 1, /* int */
	PON_IO_READ_PLUGIN = 2,   /* string */
	PON_IO_WRITE_PLUGIN = 3   /* string */
};

typedef struct pcap_options pcap_options;

PCAP_AVAILABLE_1_11
PCAP_API pcap_options *pcap_alloc_option(void);
PCAP_AVAILABLE_1_11
PCAP_API void pcap_free_option(pcap_options *);
/* Of the string, a copy is kept. -1 where there is no such option, -2 where it has another type. */
PCAP_AVAILABLE_1_11
PCAP_API int pcap_set_option_string(pcap_options *, enum pcap_option_name, const char *);
PCAP_AVAILABLE_1_11
PCAP_API int pcap_set_option_int(pcap_options *, enum pcap_option_name, const int);
/* NULL, or 0, for an option that is not set, or has another type. */
PCAP_AVAILABLE_1_11
PCAP_API const char *pcap_get_option_string(pcap_options *, enum pcap_option_name);
PCAP_AVAILABLE_1_11
PCAP_API int pcap_get_option_int(pcap_options *, enum pcap_option_name);

#ifdef __cplusplus
}
#endif

#endif
