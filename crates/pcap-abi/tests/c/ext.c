/* What goes beyond libpcap: WinPcap's extensions and ringtap's own, and a handle that is activated again
 * after a failure (which crashes in libpcap 1.10.3). Runs on ringtap's library only. */
#include "common.h"
#include <pcap/sll.h>
#include <poll.h>
#include <pthread.h>
#include <ringtap/pcap-ext.h>
#include <sys/syscall.h>

static const char *device, *other;
static char errbuf[PCAP_ERRBUF_SIZE];
static int sender;

static void activated_again(void)
{
	pcap_t *p = pcap_create("no-such-device", errbuf);

	result("activate", p, pcap_activate(p));
	result("activate again", p, pcap_activate(p));
	pcap_close(p);
	p = pcap_create(device, errbuf);
	result("set_rfmon", p, pcap_set_rfmon(p, 1));
	result("activate", p, pcap_activate(p));
	result("set_rfmon 0", p, pcap_set_rfmon(p, 0));
	result("activate", p, pcap_activate(p));
	emit(sender, 0, 1, 60);
	say("packet: %d", pcap_next_ex(p, &(struct pcap_pkthdr *){ NULL }, &(const u_char *){ NULL }));
	pcap_close(p);
}

static void queues(void)
{
	pcap_t *p = open_quiet(device);
	pcap_t *peer = open_quiet(other);
	pcap_send_queue *queue = pcap_sendqueue_alloc(10 * (sizeof(struct pcap_pkthdr) + 60));
	uint8_t frame[60];
	int queued = 0;

	for (unsigned number = 0; number < 12; number++) {
		struct pcap_pkthdr header = { { 100, (suseconds_t)number * 1000 }, 60, 60 };

		make_frame(frame, sizeof frame, number);
		queued += pcap_sendqueue_queue(queue, &header, frame) == 0;
	}
	say("queued %d in %u of %u bytes", queued, queue->len, queue->maxlen);
	for (int sync = 0; sync < 2; sync++) {
		say("sent all: %d", pcap_sendqueue_transmit(p, queue, sync) == queue->len);
		for (int packet = 0; packet < 10; packet++) {
			struct pcap_pkthdr *header;
			const u_char *bytes;

			if (pcap_next_ex(peer, &header, &bytes) == 1)
				say_packet(header, bytes);
		}
	}
	pcap_sendqueue_destroy(queue);

	int size = 0;
	struct pcap_stat_ex *stat = (struct pcap_stat_ex *)(void *)pcap_stats_ex(p, &size);
	say("stats_ex: %zu bytes less, sent %u", sizeof *stat - (size_t)size, stat->ps_sent);
	struct ringtap_stats all;
	result("ringtap_stats", peer, ringtap_stats(peer, &all, sizeof all));
	say("received %llu, captured %llu, dropped in the ring %llu",
		(unsigned long long)all.received, (unsigned long long)all.captured,
		(unsigned long long)all.dropped_in_ring);
	pcap_close(peer);
	pcap_close(p);
}

static void sampled(void)
{
	pcap_t *p = open_quiet(device);
	struct pcap_samp *samp = pcap_setsampling(p);
	unsigned seen = 0;

	samp->method = PCAP_SAMP_1_EVERY_N;
	samp->value = 4;
	emit(sender, 0, 20, 60);
	while (seen < 5 && pcap_next_ex(p, &(struct pcap_pkthdr *){ NULL }, &(const u_char *){ NULL }) == 1)
		seen++;
	say("sampled %u", seen);
	nothing_left(p);
	pcap_close(p);
}

static void sources(void)
{
	static const char *const texts[] = { "rpcap://veth0", "file:///tmp/x.pcap", "veth0", "rpcap://" };
	char source[PCAP_BUF_SIZE], name[PCAP_BUF_SIZE], host[PCAP_BUF_SIZE], port[PCAP_BUF_SIZE];
	pcap_if_t *devices = NULL;
	unsigned count = 0;

	for (size_t at = 0; at < sizeof texts / sizeof *texts; at++) {
		int type = -1;
		int value = pcap_parsesrcstr(texts[at], &type, host, port, name, errbuf);

		say("%s: %d, type %d, name '%s'", texts[at], value, type, value == 0 ? name : "");
	}
	say("createsrcstr: %d", pcap_createsrcstr(source, PCAP_SRC_IFLOCAL, NULL, NULL, "veth0", errbuf));
	say("  %s", source);
	say("createsrcstr of a file: %d", pcap_createsrcstr(source, PCAP_SRC_FILE, NULL, NULL, "/tmp/x", errbuf));
	say("  %s", source);
	say("findalldevs_ex: %d", pcap_findalldevs_ex("rpcap://", NULL, &devices, errbuf));
	for (pcap_if_t *each = devices; each != NULL; each = each->next)
		count += strncmp(each->name, "rpcap://veth", 12) == 0;
	say("  %u of the wire", count);
	pcap_freealldevs(devices);
	pcap_t *p = pcap_open("rpcap://veth0", 65535, PCAP_OPENFLAG_PROMISCUOUS, 50, NULL, errbuf);
	say("open: %s", p != NULL ? "opens" : errbuf);
	if (p != NULL) {
		say("  nothing within its time: %d",
			pcap_next_ex(p, &(struct pcap_pkthdr *){ NULL }, &(const u_char *){ NULL }));
		pcap_close(p);
	}
	p = pcap_open("rpcap://no-such-device", 65535, 0, 50, NULL, errbuf);
	say("open of none: %s", p != NULL ? "opens" : "fails");
}

static void dumped(void)
{
	pcap_t *p = open_quiet(device);
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int packets = 0;

	result("live_dump", p, pcap_live_dump(p, "dumped", 0, 5));
	sleep_ms(50);
	emit(sender, 0, 8, 60);
	say("ended: %d", pcap_live_dump_ended(p, 1));
	pcap_close(p);
	p = pcap_open_offline("dumped", errbuf);
	while (p != NULL && pcap_next_ex(p, &header, &bytes) == 1)
		packets++;
	say("dumped %d", packets);
	if (p != NULL)
		pcap_close(p);
}

static void others(void)
{
	pcap_t *p = pcap_create(device, errbuf);
	struct bpf_program program;
	uint64_t *instructions = NULL;
	u_int count = 0;

	result("no such engine", p, ringtap_set_engine(p, "none"));
	result("engine packet", p, ringtap_set_engine(p, "packet"));
	pcap_set_timeout(p, 50);
	result("activate", p, pcap_activate(p));
	say("engine: %s", ringtap_engine(p));
	struct pollfd one = { pcap_getevent(p), POLLIN, 0 };
	emit(sender, 0, 1, 60);
	say("event: %d", poll(&one, 1, 3000));
	result("compile", p, pcap_compile(p, &program, "tcp port 80", 1, 0));
	for (int hook = RINGTAP_HOOK_SOCKET; hook <= RINGTAP_HOOK_XDP_FRAGS; hook++) {
		int value = ringtap_filter_ebpf(&program, hook, &instructions, &count, errbuf);

		say("eBPF for hook %d: %d, %s", hook, value, count > 5 ? "a program" : "none");
		count = 0;
		free(instructions);
		instructions = NULL;
	}
	say("eBPF for no hook: %d", ringtap_filter_ebpf(&program, 9, &instructions, &count, errbuf));
	pcap_freecode(&program);
	pcap_close(p);
}

/* What libpcap 1.11 has. */
static void options(void)
{
	pcap_options *set = pcap_alloc_option();
	char text[] = "gzip", list[RPCAP_HOSTLIST_SIZE], host[RPCAP_HOSTLIST_SIZE];
	const char *name;

	say("precision: %d", pcap_get_option_int(set, PON_TSTAMP_PRECISION));
	say("precision set: %d",
		pcap_set_option_int(set, PON_TSTAMP_PRECISION, PCAP_TSTAMP_PRECISION_NANO));
	say("precision: %d", pcap_get_option_int(set, PON_TSTAMP_PRECISION));
	say("reader unset: %d", pcap_get_option_string(set, PON_IO_READ_PLUGIN) == NULL);
	say("reader: %d", pcap_set_option_string(set, PON_IO_READ_PLUGIN, text));
	text[0] = 'x';
	name = pcap_get_option_string(set, PON_IO_READ_PLUGIN);
	say("reader: %s", name != NULL ? name : "none");
	say("reader again: %d", pcap_set_option_string(set, PON_IO_READ_PLUGIN, "zstd"));
	say("writer: %d", pcap_set_option_string(set, PON_IO_WRITE_PLUGIN, "lz4"));
	say("%s, %s", pcap_get_option_string(set, PON_IO_READ_PLUGIN),
		pcap_get_option_string(set, PON_IO_WRITE_PLUGIN));
	say("other types: %d, %d, %d, %d", pcap_set_option_string(set, PON_TSTAMP_PRECISION, "1"),
		pcap_set_option_int(set, PON_IO_READ_PLUGIN, 1),
		pcap_get_option_string(set, PON_TSTAMP_PRECISION) == NULL,
		pcap_get_option_int(set, PON_IO_READ_PLUGIN));
	say("no such option: %d, %d, %d, %d", pcap_set_option_string(set, (enum pcap_option_name)9, "1"),
		pcap_set_option_int(set, (enum pcap_option_name)9, 1),
		pcap_get_option_string(set, (enum pcap_option_name)9) == NULL,
		pcap_get_option_int(set, (enum pcap_option_name)9));
	pcap_free_option(set);
	pcap_free_option(NULL);
	errbuf[0] = '\0';
	say("remoteact_accept: %d", pcap_remoteact_accept(NULL, "2003", NULL, host, NULL, errbuf));
	say("  %s", errbuf);
	say("remoteact_list: %d", pcap_remoteact_list(list, ',', sizeof list, errbuf));
	say("remoteact_close: %d", pcap_remoteact_close("10.0.0.1", errbuf));
	pcap_remoteact_cleanup();
}

static void never(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	(void)header;
	(void)bytes;
}

struct waiting {
	pcap_t *p;
	int by_loop, value;
	_Atomic pid_t thread;
};

static void *wait_for_packets(void *argument)
{
	struct waiting *waiting = argument;
	struct pcap_pkthdr *header;
	const u_char *bytes;

	waiting->thread = (pid_t)syscall(SYS_gettid);
	waiting->value = waiting->by_loop ? pcap_loop(waiting->p, -1, never, NULL)
					  : pcap_next_ex(waiting->p, &header, &bytes);
	return NULL;
}

/* Returns when the thread waits in the kernel for packets, which on a busy machine takes a while. */
static void until_it_waits(const struct waiting *waiting)
{
	for (int tries = 0; tries < 1000; tries++) {
		char path[64];
		long call = -1;
		FILE *file;

		sleep_ms(10);
		snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)waiting->thread);
		file = waiting->thread != 0 ? fopen(path, "r") : NULL;
		/* Else it is not in a system call: "running". */
		if (file != NULL && fscanf(file, "%ld", &call) != 1)
			call = -1;
		if (file != NULL)
			fclose(file);
		if (call == SYS_ppoll)
			return;
	}
	give_up("the thread does not wait for packets");
}

/* By another thread than the one that waits for packets, and twice. */
static void closed(void)
{
	for (int by_loop = 0; by_loop < 2; by_loop++) {
		struct waiting waiting = { open_quiet(device), by_loop, 0, 0 };
		pthread_t thread;

		if (pthread_create(&thread, NULL, wait_for_packets, &waiting) != 0)
			give_up("pthread_create");
		until_it_waits(&waiting);
		pcap_close(waiting.p);
		pthread_join(thread, NULL);
		say("%s: %d", by_loop ? "loop" : "next_ex", waiting.value);
		pcap_close(waiting.p);
	}
}

/* Packets that were copied before the header's kind is changed do not come with the header before. */
static void other_header(void)
{
	pcap_t *p = open_quiet("any");
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int wrong = 0, right = 0;

	emit(sender, 0, 4, 60);
	say("one: %d", pcap_next_ex(p, &header, &bytes));
	result("set_direction", p, pcap_setdirection(p, PCAP_D_IN));
	result("set_datalink", p, pcap_set_datalink(p, DLT_LINUX_SLL2));
	emit(sender, 4, 1, 60);
	pcap_setnonblock(p, 1, errbuf);
	for (int tries = 0; tries < 100 && right == 0; tries++) {
		while (pcap_next_ex(p, &header, &bytes) == 1) {
			/* In the place of Ethernet's. */
			int is_new = header->len == 60 - 14 + SLL2_HDR_LEN;

			wrong += !is_new;
			right += is_new;
		}
		sleep_ms(10);
	}
	say("with the new header: %s, with the one before: %d", right > 0 ? "some" : "none", wrong);
	pcap_close(p);
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	device = arguments[1];
	other = arguments[2];
	sender = wire(other);
	say("-- activated again");
	activated_again();
	say("-- queues");
	queues();
	say("-- sampled");
	sampled();
	say("-- sources");
	sources();
	say("-- dumped");
	dumped();
	say("-- others");
	others();
	say("-- options");
	options();
	say("-- closed");
	closed();
	say("-- other header");
	other_header();
	return 0;
}
