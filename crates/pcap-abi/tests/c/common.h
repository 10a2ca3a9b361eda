/*
 * What the programs share: text that does not depend on time or place, a wire to send on, files.
 *
 * Every program prints what it sees of the library. It is run on two libraries, whose texts must be
 * equal; so addresses, times, process ids and the like are not printed, only whether they are right.
 */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include <pcap/pcap.h>

#define UNUSED __attribute__((unused))

/* A line of the comparison. */
UNUSED __attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

/* The machine does not do what the program needs: no comparison. */
UNUSED __attribute__((noreturn)) static void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(3);
}

/* A result with the handle's text where it is an error (which a break is not). */
UNUSED static void result(const char *call, pcap_t *p, int value)
{
	if (value < 0 && value != PCAP_ERROR_BREAK)
		say("%s: %d, %s", call, value, pcap_geterr(p));
	else
		say("%s: %d", call, value);
}

/* A sum over bytes (FNV-1a), so that a line stands for a packet. */
UNUSED static uint32_t sum_of(const void *bytes, size_t length)
{
	const uint8_t *next = bytes;
	uint32_t sum = 2166136261u;

	while (length-- > 0)
		sum = (sum ^ *next++) * 16777619u;
	return sum;
}

UNUSED static void say_packet(const struct pcap_pkthdr *header, const u_char *bytes)
{
	say("packet: %u of %u bytes, sum %08x", header->caplen, header->len,
		sum_of(bytes, header->caplen));
}

/* ---- A wire: raw frames on a device */

UNUSED static int wire(const char *device)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = 0,
		.sll_ifindex = (int)if_nametoindex(device),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
		give_up(device);
	return fd;
}

/* A UDP packet in IPv4 in Ethernet: `length` bytes, `number` in port and payload. */
UNUSED static void make_frame(uint8_t *frame, size_t length, unsigned number)
{
	static const uint8_t start[] = {
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0,
		0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
		0x30, 0x39, 0, 0, 0, 0, 0, 0,
	};
	size_t at;

	memcpy(frame, start, sizeof start);
	for (at = sizeof start; at < length; at++)
		frame[at] = (uint8_t)(at + number);
	frame[16] = (uint8_t)((length - 14) >> 8);
	frame[17] = (uint8_t)(length - 14);
	frame[36] = (uint8_t)((1000 + number) >> 8);
	frame[37] = (uint8_t)(1000 + number);
	frame[38] = (uint8_t)((length - 34) >> 8);
	frame[39] = (uint8_t)(length - 34);
}

/* Sends `count` frames of `length` bytes, numbered from `first`. */
UNUSED static void emit(int fd, unsigned first, unsigned count, size_t length)
{
	uint8_t frame[2048];

	for (unsigned number = first; number < first + count; number++) {
		make_frame(frame, length, number);
		if (send(fd, frame, length, 0) != (ssize_t)length)
			give_up("send");
	}
}

UNUSED static void sleep_ms(long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

/* ---- Live captures */

/* An activated handle with a short read timeout and nothing in it yet. */
UNUSED static pcap_t *open_quiet(const char *device)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";
	pcap_t *p = pcap_create(device, errbuf);

	if (p == NULL) {
		say("create: %s", errbuf);
		exit(1);
	}
	pcap_set_snaplen(p, 65535);
	pcap_set_timeout(p, 50);
	if (pcap_activate(p) < 0) {
		say("activate: %s", pcap_geterr(p));
		exit(1);
	}
	return p;
}

/* Whether packets are left. Asked without blocking, after time enough for them to be handed out. */
UNUSED static void nothing_left(pcap_t *p)
{
	struct pcap_pkthdr *header;
	const u_char *bytes;
	char errbuf[PCAP_ERRBUF_SIZE] = "";

	sleep_ms(150);
	if (pcap_setnonblock(p, 1, errbuf) < 0)
		say("setnonblock: %s", errbuf);
	say("left: %d", pcap_next_ex(p, &header, &bytes));
	pcap_setnonblock(p, 0, errbuf);
}

/* ---- Files */

/* A new file in the folder that the program was started in. */
UNUSED static void write_file(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "wb");

	if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
		give_up(path);
}

UNUSED static size_t read_file(const char *path, uint8_t *bytes, size_t room)
{
	FILE *file = fopen(path, "rb");
	size_t length;

	if (file == NULL)
		give_up(path);
	length = fread(bytes, 1, room, file);
	fclose(file);
	return length;
}

#endif
