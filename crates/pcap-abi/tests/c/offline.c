/* Capture files: of every kind, whole and broken, by path and by stream, and what a handle on one
 * can and cannot do. */
#include "common.h"
#include <fcntl.h>
#include <sys/wait.h>

struct bytes {
	uint8_t data[8192];
	size_t length;
	int swapped;
};

static void put16(struct bytes *to, uint16_t value)
{
	if (to->swapped)
		value = (uint16_t)(value >> 8 | value << 8);
	memcpy(to->data + to->length, &value, 2);
	to->length += 2;
}

static void put32(struct bytes *to, uint32_t value)
{
	if (to->swapped)
		value = __builtin_bswap32(value);
	memcpy(to->data + to->length, &value, 4);
	to->length += 4;
}

static void head(struct bytes *to, uint32_t magic, uint16_t major, uint16_t minor, uint32_t snaplen,
	uint32_t type)
{
	put32(to, magic);
	put16(to, major);
	put16(to, minor);
	put32(to, 0);
	put32(to, 0);
	put32(to, snaplen);
	put32(to, type);
}

static void record(struct bytes *to, uint32_t fraction, uint32_t caplen, uint32_t len, size_t there)
{
	put32(to, 1700000000u);
	put32(to, fraction);
	put32(to, caplen);
	put32(to, len);
	for (size_t at = 0; at < there; at++)
		to->data[to->length++] = (uint8_t)(at * 7 + caplen);
}

static void what(pcap_t *p)
{
	say("  version %d.%d, snapshot %d, type %d, swapped %d, precision %d, extension %d",
		pcap_major_version(p), pcap_minor_version(p), pcap_snapshot(p), pcap_datalink(p),
		pcap_is_swapped(p), pcap_get_tstamp_precision(p), pcap_datalink_ext(p));
}

static void all_packets(pcap_t *p)
{
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int value;

	while ((value = pcap_next_ex(p, &header, &bytes)) == 1)
		say("  %ld.%09ld, %u of %u bytes, sum %08x", (long)header->ts.tv_sec,
			(long)header->ts.tv_usec, header->caplen, header->len,
			sum_of(bytes, header->caplen));
	result("  end", p, value);
}

static void try_file(const char *name, const struct bytes *file, u_int precision)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p;

	write_file("file", file->data, file->length);
	p = pcap_open_offline_with_tstamp_precision("file", precision, errbuf);
	say("%s, precision %u: %s", name, precision, p != NULL ? "opens" : errbuf);
	if (p == NULL)
		return;
	what(p);
	all_packets(p);
	pcap_close(p);
}

static void good_files(void)
{
	static const uint32_t magics[] = { 0xa1b2c3d4u, 0xa1b23c4du };

	for (int swapped = 0; swapped < 2; swapped++)
		for (size_t at = 0; at < 2; at++)
			for (u_int precision = 0; precision < 2; precision++) {
				struct bytes file = { .swapped = swapped };

				head(&file, magics[at], 2, 4, 100, 1);
				record(&file, 123456, 60, 60, 60);
				record(&file, 999999, 0, 1500, 0);
				record(&file, 5, 100, 9000, 100);
				try_file("good", &file, precision);
			}
}

/* Fractions of a second or more are handed out as they stand, and are written so. */
static void invalid_times(void)
{
	static const uint32_t magics[] = { 0xa1b2c3d4u, 0xa1b23c4du };
	static const uint32_t fractions[] = {
		999999, 1000000, 1500000, 999999999, 1000000000, 0x7fffffff, 0x80000000u, 0xffffffffu,
	};

	for (int number = 0; number < 8; number++) {
		struct bytes file = { .swapped = number & 1 };
		char errbuf[PCAP_ERRBUF_SIZE] = "";
		struct pcap_pkthdr *header;
		const u_char *bytes;
		uint8_t written[2048];
		pcap_dumper_t *dumper;
		pcap_t *p;

		head(&file, magics[number >> 1 & 1], 2, 4, 100, 1);
		for (size_t at = 0; at < sizeof fractions / sizeof *fractions; at++)
			record(&file, fractions[at], 10, 60, 10);
		try_file("invalid times", &file, (u_int)number >> 2);
		p = pcap_open_offline_with_tstamp_precision("file", (u_int)number >> 2, errbuf);
		dumper = pcap_dump_open(p, "written");
		while (pcap_next_ex(p, &header, &bytes) == 1)
			pcap_dump((u_char *)dumper, header, bytes);
		pcap_dump_close(dumper);
		pcap_close(p);
		say("  written: sum %08x", sum_of(written, read_file("written", written, sizeof written)));
	}
}

static void unusual_files(void)
{
	static const struct {
		const char *name;
		uint32_t magic;
		uint16_t major, minor;
		uint32_t snaplen, type;
	} heads[] = {
		{ "snapshot length 0", 0xa1b2c3d4u, 2, 4, 0, 1 },
		{ "snapshot length of 31 bits", 0xa1b2c3d4u, 2, 4, 0x7fffffffu, 1 },
		{ "snapshot length of 32 bits", 0xa1b2c3d4u, 2, 4, 0xffffffffu, 1 },
		{ "raw IP", 0xa1b2c3d4u, 2, 4, 100, 101 },
		{ "type with FCS", 0xa1b2c3d4u, 2, 4, 100, 1 | 0x24000000u },
		{ "unknown type", 0xa1b2c3d4u, 2, 4, 100, 5000 },
		{ "version 2.3", 0xa1b2c3d4u, 2, 3, 100, 1 },
		{ "version 2.5", 0xa1b2c3d4u, 2, 5, 100, 1 },
		{ "version 3.0", 0xa1b2c3d4u, 3, 0, 100, 1 },
		{ "version 1.2", 0xa1b2c3d4u, 1, 2, 100, 1 },
		{ "no magic number", 0x01020304u, 2, 4, 100, 1 },
	};

	for (size_t at = 0; at < sizeof heads / sizeof *heads; at++) {
		struct bytes file = { .swapped = 0 };

		head(&file, heads[at].magic, heads[at].major, heads[at].minor, heads[at].snaplen,
			heads[at].type);
		record(&file, 1, 20, 20, 20);
		try_file(heads[at].name, &file, 0);
	}
}

static void broken_files(void)
{
	struct bytes file = { .swapped = 0 };
	char errbuf[PCAP_ERRBUF_SIZE] = "";

	try_file("nothing", &file, 0);
	head(&file, 0xa1b2c3d4u, 2, 4, 100, 1);
	file.length = 3;
	try_file("3 bytes", &file, 0);
	file.length = 20;
	try_file("20 bytes", &file, 0);
	file.length = 24;
	try_file("only a head", &file, 0);
	record(&file, 1, 20, 20, 20);
	size_t whole = file.length;
	file.length = whole + 7;
	try_file("half a record's head", &file, 0);
	file.length = whole;
	record(&file, 2, 50, 50, 10);
	try_file("half a record", &file, 0);
	file.length = whole;
	record(&file, 2, 101, 101, 101);
	try_file("beyond the snapshot length", &file, 0);
	file.length = whole;
	record(&file, 2, 5000, 5000, 5000);
	record(&file, 3, 30, 30, 30);
	try_file("far beyond the snapshot length", &file, 0);
	file.length = whole;
	record(&file, 2, 0x10000000u, 20, 20);
	try_file("an absurd length", &file, 0);
	file.length = whole;
	record(&file, 2, 40, 20, 40);
	try_file("more bytes than there were", &file, 0);

	say("a missing file: %s", pcap_open_offline("no-such-file", errbuf) == NULL ? errbuf : "opens");
	say("a folder: %s", pcap_open_offline(".", errbuf) == NULL ? errbuf : "opens");
	say("no name: %s", pcap_open_offline(NULL, errbuf) == NULL ? errbuf : "opens");
	say("a wrong precision: %s",
		pcap_open_offline_with_tstamp_precision("file", 7, errbuf) == NULL ? errbuf : "opens");
}

static void sample(struct bytes *file, unsigned packets)
{
	file->length = 0;
	head(file, 0xa1b2c3d4u, 2, 4, 100, 1);
	for (unsigned number = 0; number < packets; number++)
		record(file, number, 20 + number, 20 + number, 20 + number);
}

static void streams(void)
{
	struct bytes file = { .swapped = 0 };
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	FILE *stream;
	pcap_t *p;
	int ends[2];

	sample(&file, 3);
	write_file("file", "leading", 7);
	stream = fopen("file", "ab");
	if (stream == NULL || fwrite(file.data, 1, file.length, stream) != file.length || fclose(stream) != 0)
		give_up("file");
	stream = fopen("file", "rb");
	if (stream == NULL || fseek(stream, 7, SEEK_SET) != 0)
		give_up("file");
	p = pcap_fopen_offline(stream, errbuf);
	say("a stream from its middle: %s", p != NULL ? "opens" : errbuf);
	if (p != NULL) {
		say("  its stream %d, its descriptor %d, selectable %d", pcap_file(p) == stream,
			pcap_fileno(p) == fileno(stream), pcap_get_selectable_fd(p) == fileno(stream));
		all_packets(p);
		pcap_close(p);
	}

	stream = fopen("file", "rb");
	if (stream == NULL)
		give_up("file");
	p = pcap_fopen_offline_with_tstamp_precision(stream, 1, errbuf);
	say("a stream that is no capture: %s", p != NULL ? "opens" : errbuf);
	if (p == NULL)
		say("  is still open: %s", fclose(stream) == 0 ? "yes" : "no");

	stream = fmemopen(file.data, file.length, "rb");
	if (stream == NULL)
		give_up("fmemopen");
	p = pcap_fopen_offline(stream, errbuf);
	say("a stream of memory, without a descriptor: %s", p != NULL ? "opens" : errbuf);
	if (p != NULL) {
		all_packets(p);
		pcap_close(p);
	}

	say("no stream: %s", pcap_fopen_offline(NULL, errbuf) == NULL ? errbuf : "opens");

	if (pipe(ends) < 0)
		give_up("pipe");
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		for (size_t at = 0; at < file.length; at++)
			if (write(ends[1], file.data + at, 1) != 1)
				_exit(1);
		_exit(0);
	}
	close(ends[1]);
	stream = fdopen(ends[0], "rb");
	p = pcap_fopen_offline_with_tstamp_precision(stream, 1, errbuf);
	say("a pipe that trickles: %s", p != NULL ? "opens" : errbuf);
	if (p != NULL) {
		all_packets(p);
		pcap_close(p);
	}
	waitpid(child, NULL, 0);
}

static int counted;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)bytes;
	counted += (int)header->caplen;
	if (user != NULL && header->ts.tv_usec == 4)
		pcap_breakloop((pcap_t *)(void *)user);
}

static void ways_of_reading(void)
{
	struct bytes file = { .swapped = 0 };
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	struct pcap_pkthdr header;
	const u_char *bytes;
	pcap_t *p;

	sample(&file, 10);
	write_file("file", file.data, file.length);
	p = pcap_open_offline("file", errbuf);
	result("dispatch 0", p, pcap_dispatch(p, 0, count, NULL));
	result("dispatch at the end", p, pcap_dispatch(p, 0, count, NULL));
	result("loop at the end", p, pcap_loop(p, 0, count, NULL));
	say("next at the end: %s", pcap_next(p, &header) == NULL ? "NULL" : "a packet");
	pcap_close(p);

	p = pcap_open_offline("file", errbuf);
	result("dispatch 3", p, pcap_dispatch(p, 3, count, NULL));
	result("loop 2", p, pcap_loop(p, 2, count, NULL));
	bytes = pcap_next(p, &header);
	say("next: fraction %ld, %u bytes, %s", (long)header.ts.tv_usec, header.caplen,
		bytes != NULL ? "there" : "NULL");
	result("dispatch -1", p, pcap_dispatch(p, -1, count, NULL));
	pcap_close(p);

	p = pcap_open_offline("file", errbuf);
	counted = 0;
	result("loop with a break", p, pcap_loop(p, -1, count, (u_char *)(void *)p));
	say("  %d bytes", counted);
	result("loop afterwards", p, pcap_loop(p, -1, count, NULL));
	say("  %d bytes", counted);
	pcap_close(p);

	p = pcap_open_offline("file", errbuf);
	pcap_breakloop(p);
	result("dispatch after a break", p, pcap_dispatch(p, 4, count, NULL));
	pcap_breakloop(p);
	say("next after a break: %s", pcap_next(p, &header) == NULL ? "NULL" : "a packet");
	say("next: %s", pcap_next(p, &header) == NULL ? "NULL" : "a packet");
	pcap_close(p);
}

static void filters(void)
{
	struct bytes file = { .swapped = 0 };
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	struct bpf_program program;
	struct bpf_insn bad[] = { BPF_STMT(BPF_LD | BPF_IMM, 1) };
	struct bpf_program invalid = { 1, bad };
	pcap_t *p;

	sample(&file, 10);
	write_file("file", file.data, file.length);
	p = pcap_open_offline("file", errbuf);
	result("compile", p, pcap_compile(p, &program, "len >= 25", 1, 0));
	result("setfilter", p, pcap_setfilter(p, &program));
	pcap_freecode(&program);
	result("an invalid program", p, pcap_setfilter(p, &invalid));
	result("dispatch 2 of those", p, pcap_dispatch(p, 2, count, NULL));
	result("compile", p, pcap_compile(p, &program, "len = 28", 1, 0));
	result("another filter", p, pcap_setfilter(p, &program));
	pcap_freecode(&program);
	all_packets(p);
	pcap_close(p);
}

static void what_a_file_cannot(void)
{
	struct bytes file = { .swapped = 0 };
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	struct pcap_stat stat;
	int *list;
	pcap_t *p;

	sample(&file, 2);
	write_file("file", file.data, file.length);
	p = pcap_open_offline("file", errbuf);
	result("stats", p, pcap_stats(p, &stat));
	result("setdirection", p, pcap_setdirection(p, PCAP_D_IN));
	result("inject", p, pcap_inject(p, "x", 1));
	result("sendpacket", p, pcap_sendpacket(p, (const u_char *)"x", 1));
	say("getnonblock: %d", pcap_getnonblock(p, errbuf));
	say("setnonblock: %d, %s", pcap_setnonblock(p, 1, errbuf), errbuf);
	say("getnonblock: %d", pcap_getnonblock(p, errbuf));
	int value = pcap_list_datalinks(p, &list);
	say("list_datalinks: %d, %d", value, list[0]);
	pcap_free_datalinks(list);
	result("set_datalink to its own", p, pcap_set_datalink(p, DLT_EN10MB));
	result("set_datalink to another", p, pcap_set_datalink(p, DLT_RAW));
	result("set_datalink to none", p, pcap_set_datalink(p, -5));
	result("set_snaplen", p, pcap_set_snaplen(p, 5));
	result("set_promisc", p, pcap_set_promisc(p, 1));
	result("set_timeout", p, pcap_set_timeout(p, 1));
	result("set_buffer_size", p, pcap_set_buffer_size(p, 1));
	result("set_tstamp_type", p, pcap_set_tstamp_type(p, 0));
	result("set_tstamp_precision", p, pcap_set_tstamp_precision(p, 1));
	result("set_immediate_mode", p, pcap_set_immediate_mode(p, 1));
	result("set_rfmon", p, pcap_set_rfmon(p, 1));
	result("can_set_rfmon", p, pcap_can_set_rfmon(p));
	result("activate", p, pcap_activate(p));
	result("bufsize", p, pcap_bufsize(p) > 0 ? 1 : pcap_bufsize(p));
	value = pcap_list_tstamp_types(p, &list);
	say("list_tstamp_types: %d", value);
	if (value > 0)
		pcap_free_tstamp_types(list);
	say("required timeout: %s", pcap_get_required_select_timeout(p) == NULL ? "NULL" : "some");
	pcap_close(p);
}

int main(void)
{
	good_files();
	invalid_times();
	unusual_files();
	broken_files();
	streams();
	ways_of_reading();
	filters();
	what_a_file_cannot();
	return 0;
}
