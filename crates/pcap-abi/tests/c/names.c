/* Names, values and texts: everything that needs no handle. */
#include "common.h"
#include <netdb.h>
#include <pcap/namedb.h>

static const char *or_null(const char *text)
{
	return text != NULL ? text : "NULL";
}

/* Link types that have a name, or another one, as of libpcap 1.11 only. */
static int is_newer(int value)
{
	return (value >= 2 && value <= 5) || value == 32 || (value >= 147 && value <= 162)
		|| value == 209 || (value >= 290 && value <= 304);
}

static void link_types(void)
{
	static const char *const names[] = {
		"EN10MB", "en10mb", "DLT_EN10MB", "LINKTYPE_ETHERNET", "RAW", "LINUX_SLL2", "", "NULL",
		"no such name", "IEEE802_11_RADIO", "PPI", "CHDLC", "C_HDLC",
	};

	for (int value = -2; value < 330; value++) {
		const char *name = pcap_datalink_val_to_name(value);

		if (is_newer(value))
			continue;
		if (name != NULL)
			say("DLT %d is %s, back %d", value, name, pcap_datalink_name_to_val(name));
		say("DLT %d described: %s", value,
			pcap_datalink_val_to_description(value) != NULL ? "yes" : "no");
		if (pcap_datalink_val_to_description(value) == NULL)
			say("  else %s", pcap_datalink_val_to_description_or_dlt(value));
	}
	for (size_t at = 0; at < sizeof names / sizeof *names; at++)
		say("name %s: %d", names[at], pcap_datalink_name_to_val(names[at]));
}

static void time_stamps(void)
{
	static const char *const names[] = {
		"host", "HOST", "host_lowprec", "host_hiprec", "adapter", "adapter_unsynced",
		"host_hiprec_unsynced", "", "nothing",
	};

	for (int value = -1; value < 8; value++)
		say("time stamp %d: %s, %s", value, or_null(pcap_tstamp_type_val_to_name(value)),
			or_null(pcap_tstamp_type_val_to_description(value)));
	for (size_t at = 0; at < sizeof names / sizeof *names; at++)
		say("time stamp %s: %d", names[at], pcap_tstamp_type_name_to_val(names[at]));
}

static void texts(void)
{
	for (int status = -15; status < 6; status++)
		say("status %d: %s", status, or_null(pcap_statustostr(status)));
	for (int error = 0; error < 135; error++)
		say("error %d: %s", error, pcap_strerror(error));
	say("error -1: %s", pcap_strerror(-1));
	say("error 100000: %s", pcap_strerror(100000));
}

static void ports(void)
{
	static const char *const names[] = {
		"80", "http", "domain", "ssh", "0", "65535", "-1", "1x", "", "nothing", "syslog",
		"tftp", "http-alt", "0x50",
	};
	static const char *const ranges[] = {
		"1-2", "2-1", "80", "ssh-80", "1-", "-1", "-", "http-", "ftp-data", 
		"ssh-http", "domain-http", "",
	};
	int low, high, protocol, found;

	for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
		low = protocol = -7;
		found = pcap_nametoport(names[at], &low, &protocol);
		if (found)
			say("port %s: %d, protocol %d", names[at], low, protocol);
		else
			say("port %s: no", names[at]);
	}
	for (size_t at = 0; at < sizeof ranges / sizeof *ranges; at++) {
		low = high = protocol = -7;
		found = pcap_nametoportrange(ranges[at], &low, &high, &protocol);
		if (found)
			say("ports %s: %d to %d, protocol %d", ranges[at], low, high, protocol);
		else
			say("ports %s: no", ranges[at]);
	}
}

static void protocols(void)
{
	static const char *const names[] = {
		"tcp", "udp", "icmp", "ipv6-icmp", "TCP", "6", "", "nothing", "esp", "sctp", "ip", "ip6",
		"ipv6", "arp", "rarp", "mopdl", "moprc", "decnet", "lat", "sca", "aarp", "atalk", "pup",
		"xns", "loopback", "vlan", "iso", "stp", "ipx", "netbeui", "isosap", "null", "8021d",
		"802.1D", "fcp", "ppp", "pppoes",
	};

	for (size_t at = 0; at < sizeof names / sizeof *names; at++)
		say("%s: protocol %d, Ethernet %d, LLC %d", names[at], pcap_nametoproto(names[at]),
			pcap_nametoeproto(names[at]), pcap_nametollc(names[at]));
}

static void hosts(void)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "no-such-host.invalid", "::1" };

	for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
		struct addrinfo *found = pcap_nametoaddrinfo(names[at]);

		say("host %s: %s", names[at], found != NULL ? "found" : "no");
		if (found != NULL)
			freeaddrinfo(found);
	}
	say("network loopback: %u", pcap_nametonetaddr("loopback"));
	say("network nothing: %u", pcap_nametonetaddr("no-such-network"));
}

static void ethernet(void)
{
	static const char *const texts[] = {
		"0:1:2:3:4:5", "00:01:02:03:04:05", "ff-ff-ff-ff-ff-ff", "aabb.ccdd.eeff", "AA:BB:cc:DD:ee:FF",
		"001122334455", "0.1.2.3.4.5",
	};
	static const char lines[] =
		"# a comment\n"
		"02:00:00:00:00:01 first\n"
		"\n"
		"   02:00:00:00:00:02\tsecond # more\n"
		"2:0:0:0:0:3 third third-alias\n"
		"nonsense\n"
		"02:00:00:00:00 short\n"
		"02:00:00:00:00:04 a-name-that-is-much-longer-than-the-room-that-there-is-for-it-and-"
		"goes-on-and-on-and-on-and-on-until-it-is-longer-than-one-hundred-and-twenty-two-bytes\n"
		"02:00:00:00:00:06 last\n";
	struct pcap_etherent *entry;
	FILE *file;

	for (size_t at = 0; at < sizeof texts / sizeof *texts; at++) {
		u_char *address = pcap_ether_aton(texts[at]);

		if (address == NULL)
			say("address %s: no", texts[at]);
		else
			say("address %s: %02x%02x%02x%02x%02x%02x", texts[at], address[0], address[1],
				address[2], address[3], address[4], address[5]);
		free(address);
	}
	u_char *unknown = pcap_ether_hostton("no-such-host.invalid");
	say("unknown host: %s", unknown != NULL ? "found" : "no");
	free(unknown);
	write_file("ethers", lines, sizeof lines - 1);
	file = fopen("ethers", "r");
	if (file == NULL)
		give_up("ethers");
	while ((entry = pcap_next_etherent(file)) != NULL)
		say("entry %02x%02x%02x%02x%02x%02x %s", entry->addr[0], entry->addr[1], entry->addr[2],
			entry->addr[3], entry->addr[4], entry->addr[5], entry->name);
	fclose(file);
}

int main(void)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";

	say("version: %s", strncmp(pcap_lib_version(), "libpcap version 1.", 18) == 0 ? "as it must be" : pcap_lib_version());
	say("pcap_init with unknown options: %d, %s", pcap_init(0x10000u, errbuf), errbuf);
	say("pcap_init: %d", pcap_init(PCAP_CHAR_ENC_UTF_8, errbuf));
	say("pcap_init again: %d", pcap_init(PCAP_CHAR_ENC_UTF_8, errbuf));
	say("pcap_init otherwise: %d, %s", pcap_init(PCAP_CHAR_ENC_LOCAL, errbuf), errbuf);
	say("pcap_lookupdev after pcap_init: %s", or_null((pcap_lookupdev)(errbuf)));
	say("  %s", errbuf);
	link_types();
	time_stamps();
	texts();
	ports();
	protocols();
	hosts();
	ethernet();
	return 0;
}
