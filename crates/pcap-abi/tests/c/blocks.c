/*
 * Packets in blocks: of an interface and of a file, with all loss counters and the engines. For one library only.
 */
#include "common.h"

#include <ringtap.h>

enum { FRAMES = 300, LENGTH = 120, ROOM = 64 };

/* Returns whether the packets are the frames with the numbers from `first` on. All are looked at after the call. */
static int are_frames(const struct ringtap_packet *packets, int count, unsigned first)
{
	uint8_t frame[LENGTH];

	for (int at = 0; at < count; at++) {
		make_frame(frame, LENGTH, first + (unsigned)at);
		if (packets[at].header.caplen != LENGTH || memcmp(packets[at].data, frame, LENGTH) != 0)
			return 0;
	}
	return 1;
}

/* Reads until that many frames have come. */
static void read_frames(pcap_t *p, unsigned first, unsigned frames)
{
	struct ringtap_packet packets[ROOM];
	unsigned seen = 0;
	int right = 1;
	int small = 1;

	while (seen < frames) {
		int count = ringtap_next_block(p, packets, ROOM);

		if (count < 0) {
			result("next_block", p, count);
			return;
		}
		small &= count <= ROOM;
		right &= are_frames(packets, count, first + seen);
		seen += (unsigned)count;
	}
	say("%u frames, %s, %s", seen, right ? "each as it was sent" : "others",
		small ? "no more than there is room for" : "too many at once");
}

static void live(const char *device, const char *other)
{
	struct ringtap_packet packets[ROOM];
	struct ringtap_stats stats;
	struct bpf_program filter;
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = open_quiet(device);
	int sender = wire(other);
	const u_char *bytes;
	struct pcap_pkthdr *header;
	int count;

	say("-- live");
	emit(sender, 0, FRAMES, LENGTH);
	read_frames(p, 0, FRAMES);
	nothing_left(p);
	/* One packet, then the rest of its block. */
	emit(sender, 1000, 10, LENGTH);
	say("next_ex: %d", pcap_next_ex(p, &header, &bytes));
	read_frames(p, 1001, 9);
	/* Another filter: what came before it is gone through again. */
	emit(sender, 0, 20, LENGTH);
	sleep_ms(200);
	say("compile: %d", pcap_compile(p, &filter, "udp dst port 1007", 1, 0));
	say("setfilter: %d", pcap_setfilter(p, &filter));
	pcap_freecode(&filter);
	count = ringtap_next_block(p, packets, ROOM);
	say("filtered: %d, %s", count, are_frames(packets, 1, 7) ? "the right one" : "another");
	say("setnonblock: %d", pcap_setnonblock(p, 1, errbuf));
	say("nothing there: %d", ringtap_next_block(p, packets, ROOM));
	pcap_breakloop(p);
	say("broken: %d", ringtap_next_block(p, packets, ROOM));
	say("no room: %d, %s", ringtap_next_block(p, packets, 0), pcap_geterr(p));
	say("no array: %d", ringtap_next_block(p, NULL, 1));
	say("no handle: %d", ringtap_next_block(NULL, packets, 1));
	say("stats: %d", ringtap_stats(p, &stats, sizeof stats));
	say("captured %llu, lost in the ring %llu", (unsigned long long)stats.captured,
		(unsigned long long)stats.dropped_in_ring);
	say("engine: %s", ringtap_engine(p));
	close(sender);
	pcap_close(p);
}

static void offline(void)
{
	struct ringtap_packet packets[ROOM];
	struct pcap_pkthdr header = { { 5, 0 }, LENGTH, LENGTH };
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	uint8_t frame[LENGTH];
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);
	pcap_dumper_t *file = pcap_dump_open(p, "frames.pcap");

	say("-- a file");
	if (file == NULL)
		give_up("pcap_dump_open");
	say("dead: %d, %s", ringtap_next_block(p, packets, ROOM), pcap_geterr(p));
	for (unsigned number = 0; number < FRAMES; number++) {
		make_frame(frame, LENGTH, number);
		pcap_dump((u_char *)file, &header, frame);
	}
	pcap_dump_close(file);
	pcap_close(p);
	p = pcap_open_offline("frames.pcap", errbuf);
	if (p == NULL)
		give_up(errbuf);
	read_frames(p, 0, FRAMES);
	say("end: %d", ringtap_next_block(p, packets, ROOM));
	say("end again: %d", ringtap_next_block(p, packets, ROOM));
	pcap_close(p);
}

int main(int argc, char **argv)
{
	const char *name;

	if (argc < 3)
		give_up("two arguments");
	live(argv[1], argv[2]);
	offline();
	say("-- engines");
	for (u_int number = 0; (name = ringtap_engine_name(number)) != NULL; number++)
		say("%u: %s", number, name);
	return 0;
}
