/* Capture files written: opened, appended to, positions, what is in them. */
#include "common.h"
#include <fcntl.h>

static void show(const char *path)
{
	static uint8_t bytes[65536];
	size_t length = read_file(path, bytes, sizeof bytes);

	say("  %s: %zu bytes, sum %08x", path, length, sum_of(bytes, length));
	for (size_t at = 0; at < length && at < 24; at += 4)
		say("    %02x%02x%02x%02x", bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
}

static void packets(pcap_dumper_t *dumper, unsigned count)
{
	uint8_t frame[100];

	for (unsigned number = 0; number < count; number++) {
		struct pcap_pkthdr header = { { 1700000000, 999 }, 60 + number, 100 };

		make_frame(frame, sizeof frame, number);
		pcap_dump((u_char *)dumper, &header, frame);
	}
}

static void plain(int type, int snaplen, u_int precision)
{
	pcap_t *p = pcap_open_dead_with_tstamp_precision(type, snaplen, precision);
	pcap_dumper_t *dumper = pcap_dump_open(p, "out");

	say("type %d, snapshot %d, precision %u: %s", type, snaplen, precision,
		dumper != NULL ? "opens" : pcap_geterr(p));
	if (dumper != NULL) {
		say("  at %ld, %lld", pcap_dump_ftell(dumper), (long long)pcap_dump_ftell64(dumper));
		packets(dumper, 3);
		say("  at %ld, %lld", pcap_dump_ftell(dumper), (long long)pcap_dump_ftell64(dumper));
		say("  flush %d", pcap_dump_flush(dumper));
		show("out");
		packets(dumper, 1);
		pcap_dump_close(dumper);
		show("out");
	}
	pcap_close(p);
}

static void append(const char *to, int type, int snaplen, u_int precision)
{
	pcap_t *p = pcap_open_dead_with_tstamp_precision(type, snaplen, precision);
	pcap_dumper_t *dumper = pcap_dump_open_append(p, "out");

	say("to %s, type %d, snapshot %d, precision %u: %s", to, type, snaplen, precision,
		dumper != NULL ? "opens" : pcap_geterr(p));
	if (dumper != NULL) {
		say("  at %ld", pcap_dump_ftell(dumper));
		packets(dumper, 2);
		say("  at %ld", pcap_dump_ftell(dumper));
		pcap_dump_close(dumper);
		show("out");
	}
	pcap_close(p);
}

static void appended(void)
{
	static const uint8_t swapped[24] = {
		0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 1,
	};
	uint8_t other[24] = { 0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 1 };

	unlink("out");
	append("no file", DLT_EN10MB, 100, 0);
	append("one of the same kind", DLT_EN10MB, 100, 0);
	append("one of another type", DLT_RAW, 100, 0);
	append("one of another snapshot length", DLT_EN10MB, 200, 0);
	append("one of another precision", DLT_EN10MB, 100, 1);
	write_file("out", "", 0);
	append("an empty file", DLT_EN10MB, 100, 0);
	write_file("out", "short", 5);
	append("a short file", DLT_EN10MB, 100, 0);
	write_file("out", "this is not a capture file at all", 33);
	append("another file", DLT_EN10MB, 100, 0);
	write_file("out", swapped, sizeof swapped);
	append("one of the other byte order", DLT_EN10MB, 100, 0);
	write_file("out", other, sizeof other);
	append("one of another version", DLT_EN10MB, 100, 0);
}

static void streams(void)
{
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 100);
	FILE *stream = fopen("out", "wb");
	pcap_dumper_t *dumper;
	int ends[2];

	fputs("before", stream);
	dumper = pcap_dump_fopen(p, stream);
	say("stream: %s", dumper != NULL ? "opens" : pcap_geterr(p));
	if (dumper != NULL) {
		say("  the same stream: %d, at %ld", pcap_dump_file(dumper) == stream, pcap_dump_ftell(dumper));
		packets(dumper, 1);
		pcap_dump_close(dumper);
		show("out");
	}

	if (pipe(ends) < 0)
		give_up("pipe");
	dumper = pcap_dump_fopen(p, fdopen(ends[1], "wb"));
	if (dumper != NULL) {
		uint8_t bytes[4096];

		packets(dumper, 2);
		say("pipe: at %ld, %lld", pcap_dump_ftell(dumper), (long long)pcap_dump_ftell64(dumper));
		pcap_dump_close(dumper);
		ssize_t length = read(ends[0], bytes, sizeof bytes);
		say("  %zd bytes, sum %08x", length, sum_of(bytes, (size_t)length));
	}
	close(ends[0]);

	dumper = pcap_dump_open(p, "/dev/full");
	say("a full device: %s", dumper != NULL ? "opens" : pcap_geterr(p));
	if (dumper != NULL) {
		packets(dumper, 1);
		say("  flush %d", pcap_dump_flush(dumper));
		pcap_dump_close(dumper);
	}
	pcap_close(p);
}

static void refused(const char *device)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 100);

	say("no folder: %s", pcap_dump_open(p, "no/such/folder") == NULL ? pcap_geterr(p) : "opens");
	say("a folder: %s", pcap_dump_open(p, ".") == NULL ? pcap_geterr(p) : "opens");
	say("no name: %s", pcap_dump_open(p, NULL) == NULL ? pcap_geterr(p) : "opens");
	say("append without a name: %s", pcap_dump_open_append(p, NULL) == NULL ? pcap_geterr(p) : "opens");
	pcap_close(p);

	p = pcap_create(device, errbuf);
	say("not activated: %s", pcap_dump_open(p, "out") == NULL ? pcap_geterr(p) : "opens");
	pcap_close(p);

	p = pcap_open_dead(5000, 100);
	say("unknown type: %s", pcap_dump_open(p, "out") == NULL ? pcap_geterr(p) : "opens");
	pcap_close(p);
	p = pcap_open_dead(-1, 100);
	say("negative type: %s", pcap_dump_open(p, "out") == NULL ? pcap_geterr(p) : "opens");
	pcap_close(p);
}

/* A file copied by the library is the same file. */
static void copied(void)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p;
	pcap_dumper_t *dumper;

	plain(DLT_EN10MB, 100, 0);
	p = pcap_open_offline("out", errbuf);
	dumper = pcap_dump_open(p, "copy");
	result("copied", p, pcap_loop(p, -1, pcap_dump, (u_char *)dumper));
	pcap_dump_close(dumper);
	pcap_close(p);
	show("copy");
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	plain(DLT_EN10MB, 100, 0);
	plain(DLT_EN10MB, 0, 1);
	plain(DLT_RAW, 65535, 0);
	plain(DLT_LINUX_SLL2, 262144, 1);
	appended();
	streams();
	refused(arguments[1]);
	copied();
	return 0;
}
