module guest

go 1.19

require github.com/google/gopacket v1.1.19
