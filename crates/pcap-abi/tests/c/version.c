/* The version of the library that the other programs run on. */
#include "common.h"

int main(void)
{
	say("%s", pcap_lib_version());
	return 0;
}
