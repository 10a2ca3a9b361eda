/* Threads: each its own handle on one device, filters compiled at once, one closing while others
 * read, and one that only counts. */
#include "common.h"
#include <pthread.h>

enum { READERS = 4, PACKETS = 200 };

static const char *device;
static int sender;

struct reader {
	pcap_t *p;
	unsigned number, seen, dropped;
	uint32_t sums;
	int value;
};

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct reader *reader = (struct reader *)(void *)user;

	reader->seen++;
	reader->sums += sum_of(bytes, header->caplen);
}

static void *read_all(void *argument)
{
	struct reader *reader = argument;

	reader->value = pcap_loop(reader->p, PACKETS, count, (u_char *)reader);
	return NULL;
}

static void *compile_many(void *argument)
{
	unsigned *compiled = argument;

	for (unsigned number = 0; number < 100; number++) {
		pcap_t *p = pcap_open_dead(number % 2 ? DLT_EN10MB : DLT_RAW, 65535);
		struct bpf_program program;
		char text[100];

		snprintf(text, sizeof text, "udp port %u or host 10.0.%u.1", number + 1, number);
		if (pcap_compile(p, &program, text, 1, 0) == 0) {
			*compiled += (unsigned)bpf_validate(program.bf_insns, (int)program.bf_len);
			pcap_freecode(&program);
		}
		if (pcap_compile(p, &program, "udp port", 1, 0) != 0 && pcap_geterr(p)[0] != 0)
			*compiled += 1;
		pcap_close(p);
	}
	return NULL;
}

static void *count_drops(void *argument)
{
	struct reader *reader = argument;
	struct pcap_stat stat;

	for (unsigned turn = 0; turn < 50; turn++) {
		if (pcap_stats(reader->p, &stat) == 0)
			reader->dropped = stat.ps_drop;
		sleep_ms(1);
	}
	return NULL;
}

static void readers(void)
{
	struct reader all[READERS] = { { .p = NULL } };
	pthread_t threads[READERS];

	for (unsigned number = 0; number < READERS; number++) {
		all[number].p = open_quiet(device);
		all[number].number = number;
		if (pthread_create(&threads[number], NULL, read_all, &all[number]) != 0)
			give_up("pthread_create");
	}
	emit(sender, 0, PACKETS, 80);
	for (unsigned number = 0; number < READERS; number++) {
		pthread_join(threads[number], NULL);
		say("reader %u: %d, seen %u, sums %08x", number, all[number].value, all[number].seen,
			all[number].sums);
		pcap_close(all[number].p);
	}
}

static void compilers(void)
{
	unsigned compiled[READERS] = { 0 };
	pthread_t threads[READERS];

	for (unsigned number = 0; number < READERS; number++)
		if (pthread_create(&threads[number], NULL, compile_many, &compiled[number]) != 0)
			give_up("pthread_create");
	for (unsigned number = 0; number < READERS; number++) {
		pthread_join(threads[number], NULL);
		say("compiler %u: %u", number, compiled[number]);
	}
}

/* Opening and closing beside a reader. */
static void beside(void)
{
	struct reader reader = { .p = open_quiet(device) };
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_all, &reader) != 0)
		give_up("pthread_create");
	for (unsigned turn = 0; turn < 20; turn++) {
		pcap_t *p = open_quiet(device);

		emit(sender, turn * 10, 10, 80);
		pcap_close(p);
	}
	pthread_join(thread, NULL);
	say("beside others: %d, seen %u, sums %08x", reader.value, reader.seen, reader.sums);
	pcap_close(reader.p);
}

/* One thread reads and another asks for statistics, which tools do. */
static void watched(void)
{
	struct reader reader = { .p = open_quiet(device) };
	pthread_t thread, watcher;

	if (pthread_create(&thread, NULL, read_all, &reader) != 0 ||
		pthread_create(&watcher, NULL, count_drops, &reader) != 0)
		give_up("pthread_create");
	emit(sender, 0, PACKETS, 80);
	pthread_join(thread, NULL);
	pthread_join(watcher, NULL);
	say("watched: %d, seen %u, dropped %u", reader.value, reader.seen, reader.dropped);
	pcap_close(reader.p);
}

int main(int arguments, char **names)
{
	if (arguments != 3)
		return 2;
	device = names[1];
	sender = wire(names[2]);
	readers();
	compilers();
	beside();
	watched();
	return 0;
}
