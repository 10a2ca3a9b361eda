/* The oracle: asks the installed libpcap what it makes of expressions, packets and files.
 *
 * It reads requests on standard input and answers on standard output, one answer per request, in
 * the machine's byte order; strings and byte runs are preceded by their length (u32). Every answer
 * begins with a u32: 0 for success, 1 for a refusal, which is followed by libpcap's message.
 *
 *   request                                              answer after a 0
 *   'C' dlt snaplen netmask optimize expression          count, count * (u16 code, u8 jt, u8 jf, u32 k)
 *   'P' count, count * (len, data)                       nothing; the packets are kept for 'F'
 *   'F' count, count * instruction                       count, count * verdict (bytes accepted)
 *   'R' path                                             dlt snaplen, records, end (below)
 *   'N' dlt                                              name, description
 *   'V'                                                  version, such as "libpcap version 1.10.3 ..."
 *
 * A record of 'R' is 1, i64 seconds, u32 nanoseconds, u32 len, data; the end is 0 and a message,
 * empty where the file ended well.
 */
#define _GNU_SOURCE
#include <nss.h>
#include <pcap/pcap.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct packet {
	uint32_t len;
	uint32_t caplen;
	unsigned char *data;
};

static struct packet *packets;
static uint32_t packet_count;

static void fail(const char *what)
{
	fprintf(stderr, "oracle: %s\n", what);
	exit(1);
}

static void get(void *to, size_t size)
{
	if (size != 0 && fread(to, size, 1, stdin) != 1)
		fail("a request ends early");
}

static uint32_t get_u32(void)
{
	uint32_t value;

	get(&value, sizeof value);
	return value;
}

/* One byte more than asked, zeroed, so that bytes can be used as a string. */
static void *get_bytes(uint32_t *size)
{
	unsigned char *bytes;

	*size = get_u32();
	bytes = calloc((size_t)*size + 1, 1);
	if (bytes == NULL)
		fail("no memory");
	get(bytes, *size);
	return bytes;
}

static void put(const void *from, size_t size)
{
	if (size != 0 && fwrite(from, size, 1, stdout) != 1)
		exit(1);
}

static void put_u32(uint32_t value)
{
	put(&value, sizeof value);
}

static void put_bytes(const void *bytes, uint32_t size)
{
	put_u32(size);
	put(bytes, size);
}

static void put_string(const char *text)
{
	put_bytes(text, (uint32_t)strlen(text));
}

static void refuse(const char *message)
{
	put_u32(1);
	put_string(message);
}

static void answer_compile(void)
{
	uint32_t dlt = get_u32(), snaplen = get_u32(), netmask = get_u32(), optimize = get_u32();
	uint32_t size;
	char *expression = get_bytes(&size);
	pcap_t *dead = pcap_open_dead((int)dlt, (int)snaplen);
	struct bpf_program program;

	if (dead == NULL)
		fail("pcap_open_dead");
	if (pcap_compile(dead, &program, expression, (int)optimize, netmask) != 0) {
		refuse(pcap_geterr(dead));
	} else {
		put_u32(0);
		put_u32(program.bf_len);
		for (u_int i = 0; i < program.bf_len; i++) {
			const struct bpf_insn *insn = &program.bf_insns[i];

			put(&insn->code, 2);
			put(&insn->jt, 1);
			put(&insn->jf, 1);
			put_u32((uint32_t)insn->k);
		}
		pcap_freecode(&program);
	}
	pcap_close(dead);
	free(expression);
}

static void keep_packets(void)
{
	for (uint32_t i = 0; i < packet_count; i++)
		free(packets[i].data);
	free(packets);
	packet_count = get_u32();
	packets = calloc((size_t)packet_count + 1, sizeof *packets);
	if (packets == NULL)
		fail("no memory");
	for (uint32_t i = 0; i < packet_count; i++) {
		packets[i].len = get_u32();
		packets[i].data = get_bytes(&packets[i].caplen);
	}
	put_u32(0);
}

static void answer_filter(void)
{
	uint32_t count = get_u32();
	struct bpf_insn *insns = calloc((size_t)count + 1, sizeof *insns);

	if (insns == NULL)
		fail("no memory");
	for (uint32_t i = 0; i < count; i++) {
		get(&insns[i].code, 2);
		get(&insns[i].jt, 1);
		get(&insns[i].jf, 1);
		insns[i].k = get_u32();
	}
	if (!bpf_validate(insns, (int)count)) {
		refuse("bpf_validate refuses the program");
	} else {
		put_u32(0);
		put_u32(packet_count);
		for (uint32_t i = 0; i < packet_count; i++)
			put_u32(bpf_filter(insns, packets[i].data, packets[i].len, packets[i].caplen));
	}
	free(insns);
}

static void answer_read(void)
{
	char message[PCAP_ERRBUF_SIZE] = "";
	uint32_t size;
	char *path = get_bytes(&size);
	pcap_t *file = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, message);
	struct pcap_pkthdr *header;
	const u_char *data;
	int status;

	free(path);
	if (file == NULL) {
		refuse(message);
		return;
	}
	put_u32(0);
	put_u32((uint32_t)pcap_datalink(file));
	put_u32((uint32_t)pcap_snapshot(file));
	while ((status = pcap_next_ex(file, &header, &data)) == 1) {
		int64_t seconds = header->ts.tv_sec;

		put_u32(1);
		put(&seconds, sizeof seconds);
		put_u32((uint32_t)header->ts.tv_usec);
		put_u32(header->len);
		put_bytes(data, header->caplen);
	}
	put_u32(0);
	put_string(status == PCAP_ERROR ? pcap_geterr(file) : "");
	pcap_close(file);
}

static void answer_name(void)
{
	int dlt = (int)get_u32();
	const char *name = pcap_datalink_val_to_name(dlt);
	const char *description = pcap_datalink_val_to_description(dlt);

	if (name == NULL) {
		refuse("no such link type");
		return;
	}
	put_u32(0);
	put_string(name);
	put_string(description == NULL ? "" : description);
}

static void answer_version(void)
{
	put_u32(0);
	put_string(pcap_lib_version());
}

int main(void)
{
	int request;

	/* Names are those of this system's files: answers that depend on a name server, and waits for
	 * one, have no place in a test. */
	__nss_configure_lookup("hosts", "files");
	__nss_configure_lookup("networks", "files");
	while ((request = getchar()) != EOF) {
		switch (request) {
		case 'C':
			answer_compile();
			break;
		case 'P':
			keep_packets();
			break;
		case 'F':
			answer_filter();
			break;
		case 'R':
			answer_read();
			break;
		case 'N':
			answer_name();
			break;
		case 'V':
			answer_version();
			break;
		default:
			fail("an unknown request");
		}
		fflush(stdout);
	}
	return 0;
}
