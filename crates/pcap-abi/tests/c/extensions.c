/*
 * What goes beyond libpcap: modes, send queues, a capture in the background, sampling, counters, filters
 * as eBPF, sources by name. For one library only; it is told the device and the engine.
 */
#include "common.h"

#include <linux/capability.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <ringtap/pcap-ext.h>

#define FRAMES 50
#define FRAME 60

static int calls;

static void count(u_char *user UNUSED, const struct pcap_pkthdr *header UNUSED, const u_char *data UNUSED)
{
	calls++;
}

/* Broadcast UDP from port 9999 to port 9999. */
static const u_char frame[FRAME] = {
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 0,
	0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2,
	0x27, 0x0f, 0x27, 0x0f, 0, 26, 0, 0,
};

static pcap_send_queue *full_queue(void)
{
	const u_int record = sizeof(struct pcap_pkthdr) + FRAME;
	pcap_send_queue *queue = pcap_sendqueue_alloc(FRAMES * record);
	struct pcap_pkthdr header = {{0, 0}, FRAME, FRAME};
	int queued = 0;

	for (int i = 0; i <= FRAMES; i++) {
		header.ts.tv_usec = i * 200;
		queued += pcap_sendqueue_queue(queue, &header, frame) == 0;
	}
	say("queued %d of %d, all room used %d", queued, FRAMES + 1, queue->len == queue->maxlen);
	return queue;
}

static void send_all(pcap_t *handle, pcap_send_queue *queue, int synchronised)
{
	u_int sent = pcap_sendqueue_transmit(handle, queue, synchronised);

	say("sent all %d", sent == queue->len);
}

/* Adds up the records of statistics until they tell of all frames. */
static void sum(pcap_t *handle, int sums[2])
{
	struct pcap_pkthdr *header;
	const u_char *data;
	uint64_t numbers[2] = {0, 0};

	sums[0] = sums[1] = 0;
	for (int i = 0; i < 20 && sums[0] < FRAMES; i++) {
		if (pcap_next_ex(handle, &header, &data) != 1 || header->caplen != sizeof(numbers))
			break;
		memcpy(numbers, data, sizeof(numbers));
		sums[0] += (int)numbers[0];
		sums[1] += (int)numbers[1];
	}
}

static void modes(pcap_t *handle, pcap_send_queue *queue)
{
	int sums[2];

	say("mode 7: %d", pcap_setmode(handle, 7));
	say("statistics: %d", pcap_setmode(handle, MODE_STAT));
	send_all(handle, queue, 1);
	sum(handle, sums);
	say("counted %d packets, %d bytes", sums[0], sums[1]);
	say("packets: %d", pcap_setmode(handle, MODE_CAPT));
}

static void background(pcap_t *handle, pcap_send_queue *queue)
{
	struct pcap_stat_ex *extended;
	struct ringtap_stats stats;
	char errbuf[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	const u_char *data;
	pcap_t *file;
	int size = 0, packets = 0;

	say("no file yet: %d", pcap_live_dump_ended(handle, 0));
	say("live dump: %d", pcap_live_dump(handle, "live.pcap", 0, 20));
	say("a second: %d", pcap_live_dump(handle, "other.pcap", 0, 20));
	send_all(handle, queue, 0);
	say("ended: %d", pcap_live_dump_ended(handle, 1));
	file = pcap_open("file://live.pcap", 65535, 0, 0, NULL, errbuf);
	while (file != NULL && pcap_next_ex(file, &header, &data) == 1)
		packets += header->len == FRAME && memcmp(data, frame, FRAME) == 0;
	say("in the file: %d", packets);
	if (file != NULL)
		pcap_close(file);
	memset(&stats, 0xee, sizeof(stats));
	say("stats: %d", ringtap_stats(handle, &stats, sizeof(stats)));
	say("received %d, sent %d, ring %d", (int)stats.received, (int)stats.sent,
		(int)stats.dropped_in_ring);
	extended = (struct pcap_stat_ex *)pcap_stats_ex(handle, &size);
	say("extended: size %d, received %u, sent %u", size == sizeof(*extended), extended->ps_recv,
		extended->ps_sent);
}

static void samples(pcap_t *handle, pcap_send_queue *queue)
{
	struct pcap_samp *sampling = pcap_setsampling(handle);
	char errbuf[PCAP_ERRBUF_SIZE];
	const struct timespec pause = {0, 20 * 1000 * 1000};
	int before = 0;

	/* What the file left over is read first. */
	pcap_setnonblock(handle, 1, errbuf);
	for (int i = 0; i < 100 && before < FRAMES - 20; i++) {
		int read = pcap_dispatch(handle, -1, count, NULL);

		before += read > 0 ? read : 0;
		nanosleep(&pause, NULL);
	}
	calls = 0;
	sampling->method = PCAP_SAMP_1_EVERY_N;
	sampling->value = 5;
	send_all(handle, queue, 0);
	for (int i = 0; i < 100 && calls < FRAMES / 5; i++) {
		pcap_dispatch(handle, -1, count, NULL);
		nanosleep(&pause, NULL);
	}
	say("one of five: %d", calls);
}

static void names(const struct bpf_program *program)
{
	char errbuf[PCAP_ERRBUF_SIZE], source[1024], host[1024], port[1024], name[1024];
	uint64_t *instructions = NULL;
	u_int length = 0;
	int type = 0;
	pcap_if_t *devices;
	pcap_t *handle;

	for (int hook = RINGTAP_HOOK_SOCKET; hook <= RINGTAP_HOOK_XDP_FRAGS + 1; hook++) {
		instructions = NULL;
		say("hook %d: %d", hook, ringtap_filter_ebpf(program, hook, &instructions, &length, errbuf));
		free(instructions);
	}
	say("create: %d", pcap_createsrcstr(source, PCAP_SRC_IFREMOTE, "10.0.0.1", "2002", "eth0", errbuf));
	say("parse: %d", pcap_parsesrcstr(source, &type, host, port, name, errbuf));
	say("%s: type %d, host %s, port %s, name %s", source, type, host, port, name);
	say("devices: %d", pcap_findalldevs_ex("rpcap://", NULL, &devices, errbuf));
	for (const pcap_if_t *device = devices; device != NULL; device = device->next)
		say("  %s", device->name);
	pcap_freealldevs(devices);
	say("remote: %d", pcap_open(source, 100, 0, 100, NULL, errbuf) == NULL);
	handle = pcap_open("rpcap://lo", 100, PCAP_OPENFLAG_MAX_RESPONSIVENESS, 50, NULL, errbuf);
	if (handle != NULL) {
		struct pcap_pkthdr *header;
		const u_char *data;

		say("after the timeout: %d", pcap_next_ex(handle, &header, &data));
		pcap_close(handle);
	}
}

/* Has those rights in force that are wanted and permitted. */
static void have_only(unsigned int low, unsigned int high)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		give_up("capget");
	data[0].effective = data[0].permitted & low;
	data[1].effective = data[1].permitted & high;
	if (syscall(SYS_capset, &header, data) != 0)
		give_up("capset");
}

/* Gives up the rights that are in force, or takes them back. */
static void have_rights(int wanted)
{
	have_only(wanted ? ~0u : 0, wanted ? ~0u : 0);
}

static int filtered(pcap_t *handle, const char *expression)
{
	struct bpf_program program;
	int set;

	if (pcap_compile(handle, &program, expression, 1, PCAP_NETMASK_UNKNOWN) != 0)
		return -9;
	set = pcap_setfilter(handle, &program);
	pcap_freecode(&program);
	return set;
}

static void receive(pcap_t *handle, pcap_t *peer, pcap_send_queue *queue)
{
	calls = 0;
	have_rights(1);
	send_all(peer, queue, 0);
	have_rights(0);
	/* Where none has come after some timeouts, none will. */
	for (int i = 0; i < (calls > 0 ? 500 : 30) && calls < FRAMES; i++) {
		usleep(10000);
		pcap_dispatch(handle, -1, count, NULL);
	}
	say("received %d", calls);
}

/* Filters that are set when the rights to give one to the kernel are gone. */
static void without_rights(const char *device, const char *engine, pcap_send_queue *queue)
{
	char errbuf[PCAP_ERRBUF_SIZE];
	pcap_t *peer = pcap_open_live("veth1", 100, 0, 300, errbuf);

	for (int before = 0; before < 2; before++) {
		pcap_t *handle = pcap_create(device, errbuf);

		pcap_set_timeout(handle, 20);
		ringtap_set_engine(handle, engine);
		say("activate: %d", pcap_activate(handle));
		pcap_setnonblock(handle, 1, errbuf);
		if (before)
			say("with rights: %d", filtered(handle, "udp port 9999"));
		have_rights(0);
		say("without: %d", filtered(handle, "udp port 1"));
		receive(handle, peer, queue);
		say("another: %d", filtered(handle, "ip"));
		receive(handle, peer, queue);
		have_rights(1);
		pcap_close(handle);
	}
	pcap_close(peer);
}

/* Modes that the kernel refuses: it takes no other filter from a socket whose filter is locked. */
static void locked(const char *device, pcap_send_queue *queue)
{
	char errbuf[PCAP_ERRBUF_SIZE];
	pcap_t *peer = pcap_open_live("veth1", 100, 0, 300, errbuf);

	for (int counting = 0; counting < 2; counting++) {
		pcap_t *handle = pcap_create(device, errbuf);
		struct pcap_pkthdr *header;
		const u_char *data;
		const int on = 1;
		int records = 0;

		pcap_set_timeout(handle, 20);
		pcap_activate(handle);
		pcap_setnonblock(handle, 1, errbuf);
		if (counting)
			say("statistics: %d", pcap_setmode(handle, MODE_STAT));
		say("lock: %d", setsockopt(pcap_fileno(handle), SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)));
		if (counting) {
			say("packets: %d", pcap_setmode(handle, MODE_CAPT));
			for (int i = 0; i < 500 && records < 2; i++) {
				usleep(10000);
				if (pcap_next_ex(handle, &header, &data) == 1)
					records += header->caplen == 16 ? 1 : -1;
			}
			say("still counts: %d", records);
		} else {
			say("statistics: %d", pcap_setmode(handle, MODE_STAT));
			receive(handle, peer, queue);
			have_rights(1);
		}
		pcap_close(handle);
	}
	pcap_close(peer);
}

/* Statistics of who may open packet sockets and nothing else. */
static void few_rights(const char *device, pcap_send_queue *queue)
{
	char errbuf[PCAP_ERRBUF_SIZE];
	pcap_t *peer = pcap_open_live("veth1", 100, 0, 300, errbuf);
	pcap_t *handle = pcap_create(device, errbuf);
	int sums[2];

	have_only(CAP_TO_MASK(CAP_NET_RAW), 0);
	pcap_set_timeout(handle, 100);
	say("few rights: %d", pcap_activate(handle));
	say("filter: %d", filtered(handle, "udp port 9999"));
	say("statistics: %d", pcap_setmode(handle, MODE_STAT));
	send_all(peer, queue, 0);
	sum(handle, sums);
	say("counted %d packets, %d bytes", sums[0], sums[1]);
	have_rights(1);
	pcap_close(handle);
	pcap_close(peer);
}

/* Statistics of an interface that is deleted: the wire is no more afterwards. */
static void deleted(const char *device, const char *engine)
{
	char errbuf[PCAP_ERRBUF_SIZE], command[64];
	pcap_t *handle = pcap_create(device, errbuf);
	struct pcap_pkthdr *header;
	const u_char *data;
	int status = 0;

	ringtap_set_engine(handle, engine);
	pcap_set_timeout(handle, 20);
	pcap_activate(handle);
	say("statistics: %d", pcap_setmode(handle, MODE_STAT));
	snprintf(command, sizeof(command), "ip link delete %s", device);
	say("deleted: %d", system(command));
	for (int i = 0; i < 500 && status >= 0; i++)
		status = pcap_next_ex(handle, &header, &data);
	say("%d: %s", status, pcap_geterr(handle));
	pcap_close(handle);
}

int main(int argc, char **argv)
{
	char errbuf[PCAP_ERRBUF_SIZE];
	struct bpf_program program;
	pcap_send_queue *queue;
	pcap_t *handle;

	if (argc < 3)
		return 2;
	handle = pcap_create(argv[1], errbuf);
	pcap_set_timeout(handle, 300);
	pcap_set_snaplen(handle, 65535);
	say("no such engine: %d", ringtap_set_engine(handle, "nothing"));
	say("engine: %d", ringtap_set_engine(handle, argv[2]));
	say("activate: %d %s", pcap_activate(handle), pcap_geterr(handle));
	say("it is %s, too late: %d", ringtap_engine(handle), ringtap_set_engine(handle, argv[2]));
	say("descriptor %d", pcap_getevent(handle) >= 0);
	say("compile %d", pcap_compile(handle, &program, "udp port 9999", 1, PCAP_NETMASK_UNKNOWN));
	say("filter %d", pcap_setfilter(handle, &program));
	say("buffer %d", pcap_setbuff(handle, 1 << 20));
	say("min to copy %d", pcap_setmintocopy(handle, 2000));
	say("user buffer %d, %d", pcap_setuserbuffer(handle, 1 << 20), pcap_setuserbuffer(handle, 0));
	queue = full_queue();
	modes(handle, queue);
	background(handle, queue);
	samples(handle, queue);
	names(&program);
	pcap_freecode(&program);
	pcap_close(handle);
	without_rights(argv[1], argv[2], queue);
	if (strcmp(argv[2], "packet") == 0) {
		locked(argv[1], queue);
		few_rights(argv[1], queue);
	}
	deleted(argv[1], argv[2]);
	pcap_sendqueue_destroy(queue);
	return 0;
}
