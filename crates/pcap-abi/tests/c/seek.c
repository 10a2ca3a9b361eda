/* A file's stream, asked for and moved, as programs do that go back to a file's first packet or look
 * for one. */
#include "common.h"

static void ignore(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	(void)header;
	(void)bytes;
}

static void show(pcap_t *p)
{
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int value = pcap_next_ex(p, &header, &bytes);

	if (value == 1)
		say("  %u bytes, stream at %ld", header->caplen, ftell(pcap_file(p)));
	else
		say("  %d, stream at %ld", value, ftell(pcap_file(p)));
}

static uint32_t read_time(FILE *stream)
{
	uint32_t seconds = 0;

	return fread(&seconds, sizeof seconds, 1, stream) == 1 ? seconds : 0;
}

int main(void)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 1000);
	pcap_dumper_t *dumper = pcap_dump_open(p, "file");
	long third = 0;

	for (unsigned number = 0; number < 2000; number++) {
		uint8_t frame[1000];
		struct pcap_pkthdr header = { { 1700000000, (suseconds_t)number }, 60 + number % 900, 1000 };

		make_frame(frame, sizeof frame, number);
		pcap_dump((u_char *)dumper, &header, frame);
	}
	pcap_dump_close(dumper);
	pcap_close(p);

	p = pcap_open_offline("file", errbuf);
	if (p == NULL)
		give_up(errbuf);
	show(p);
	show(p);
	third = ftell(pcap_file(p));
	show(p);
	say("back to the first");
	fseek(pcap_file(p), sizeof(struct pcap_file_header), SEEK_SET);
	show(p);
	say("to the third");
	fseek(pcap_file(p), third, SEEK_SET);
	show(p);
	result("the others", p, pcap_dispatch(p, -1, ignore, NULL));
	show(p);
	say("back again");
	fseek(pcap_file(p), sizeof(struct pcap_file_header), SEEK_SET);
	result("all", p, pcap_dispatch(p, -1, ignore, NULL));
	show(p);
	say("the stream asked for between a move and what it is for");
	fseek(pcap_file(p), 0, SEEK_END);
	say("  the end is at %ld", ftell(pcap_file(p)));
	fseek(pcap_file(p), third, SEEK_SET);
	say("  the third's time is %s", read_time(pcap_file(p)) == 1700000000 ? "right" : "wrong");
	say("  behind it at %ld", ftell(pcap_file(p)) - third);
	fseek(pcap_file(p), third, SEEK_SET);
	show(p);
	pcap_close(p);
	return 0;
}

