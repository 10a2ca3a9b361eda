/* Threads that are cancelled while they read: in a loop, packet by packet, with packets and without. */
#include "common.h"
#include <pthread.h>

static const char *device;
static int sender;

struct reader {
	pcap_t *p;
	int by_loop;
};

static void ignore(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	(void)header;
	(void)bytes;
}

static void *read_on(void *argument)
{
	struct reader *reader = argument;
	struct pcap_pkthdr *header;
	const u_char *bytes;

	if (reader->by_loop)
		pcap_loop(reader->p, -1, ignore, NULL);
	else
		while (pcap_next_ex(reader->p, &header, &bytes) >= 0)
			;
	return NULL;
}

static void cancelled(int by_loop, int traffic)
{
	struct reader reader = { open_quiet(device), by_loop };
	pthread_t thread;
	void *value = NULL;

	if (pthread_create(&thread, NULL, read_on, &reader) != 0)
		give_up("pthread_create");
	sleep_ms(50);
	if (traffic)
		emit(sender, 0, 10, 60);
	pthread_cancel(thread);
	/* A library that waits in the kernel for packets may notice it with the next one only. */
	emit(sender, 0, 1, 60);
	pthread_join(thread, &value);
	say("%s, %s traffic: %s", by_loop ? "loop" : "next_ex", traffic ? "with" : "without",
		value == PTHREAD_CANCELED ? "cancelled" : "returned");
	pcap_close(reader.p);
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	device = arguments[1];
	sender = wire(arguments[2]);
	for (int by_loop = 0; by_loop < 2; by_loop++)
		for (int traffic = 0; traffic < 2; traffic++)
			cancelled(by_loop, traffic);
	return 0;
}
