//! Built-in names for systems without `/etc/services` and `/etc/protocols` (Debian without
//! netbase).
//!
//! Source: IANA's registries of service names and of protocol numbers; names as Linux systems
//! spell them.

/// Services in the form of services(5).
pub(super) const SERVICES: &str = "\
echo 7/tcp
echo 7/udp
discard 9/tcp sink
discard 9/udp sink
daytime 13/tcp
daytime 13/udp
chargen 19/tcp
chargen 19/udp
ftp-data 20/tcp
ftp 21/tcp
ssh 22/tcp
telnet 23/tcp
smtp 25/tcp mail
time 37/tcp
time 37/udp
tacacs 49/tcp
domain 53/tcp
domain 53/udp
bootps 67/udp
bootpc 68/udp
tftp 69/udp
gopher 70/tcp
finger 79/tcp
http 80/tcp www
kerberos 88/tcp kerberos5
kerberos 88/udp kerberos5
pop3 110/tcp
sunrpc 111/tcp portmapper
sunrpc 111/udp portmapper
nntp 119/tcp
ntp 123/udp
epmap 135/tcp loc-srv
netbios-ns 137/udp
netbios-dgm 138/udp
netbios-ssn 139/tcp
imap2 143/tcp imap
snmp 161/tcp
snmp 161/udp
snmp-trap 162/tcp snmptrap
snmp-trap 162/udp snmptrap
bgp 179/tcp
ldap 389/tcp
ldap 389/udp
https 443/tcp
https 443/udp
microsoft-ds 445/tcp
microsoft-ds 445/udp
kpasswd 464/tcp
kpasswd 464/udp
submissions 465/tcp ssmtp smtps urd
isakmp 500/udp
exec 512/tcp
login 513/tcp
who 513/udp whod
shell 514/tcp cmd
syslog 514/udp
printer 515/tcp spooler
route 520/udp router routed
dhcpv6-client 546/udp
dhcpv6-server 547/udp
rtsp 554/tcp
rtsp 554/udp
nntps 563/tcp snntp
submission 587/tcp
ipp 631/tcp
ldaps 636/tcp
ldaps 636/udp
domain-s 853/tcp
domain-s 853/udp
rsync 873/tcp
ftps 990/tcp
telnets 992/tcp
imaps 993/tcp
pop3s 995/tcp
socks 1080/tcp
openvpn 1194/tcp
openvpn 1194/udp
ms-sql-s 1433/tcp
ms-sql-m 1434/udp
l2f 1701/udp l2tp
radius 1812/tcp
radius 1812/udp
radius-acct 1813/tcp radacct
radius-acct 1813/udp radacct
nfs 2049/tcp
nfs 2049/udp
iscsi-target 3260/tcp
mysql 3306/tcp
ms-wbt-server 3389/tcp
svn 3690/tcp subversion
epmd 4369/tcp
ipsec-nat-t 4500/udp
sip 5060/tcp
sip 5060/udp
sip-tls 5061/tcp
sip-tls 5061/udp
xmpp-client 5222/tcp jabber-client
xmpp-server 5269/tcp jabber-server
mdns 5353/udp
postgresql 5432/tcp postgres
amqps 5671/tcp
amqp 5672/tcp
amqp 5672/sctp
x11 6000/tcp x11-0
redis 6379/tcp
sflow 6343/udp
syslog-tls 6514/tcp
http-alt 8080/tcp webcache
git 9418/tcp
";

/// Protocols in the form of protocols(5).
pub(super) const PROTOCOLS: &str = "\
ip 0 IP
hopopt 0 HOPOPT
icmp 1 ICMP
igmp 2 IGMP
ggp 3 GGP
ipencap 4 IP-ENCAP
st 5 ST
tcp 6 TCP
egp 8 EGP
igp 9 IGP
pup 12 PUP
udp 17 UDP
hmp 20 HMP
xns-idp 22 XNS-IDP
rdp 27 RDP
iso-tp4 29 ISO-TP4
dccp 33 DCCP
xtp 36 XTP
ddp 37 DDP
idpr-cmtp 38 IDPR-CMTP
ipv6 41 IPv6
ipv6-route 43 IPv6-Route
ipv6-frag 44 IPv6-Frag
idrp 45 IDRP
rsvp 46 RSVP
gre 47 GRE
esp 50 IPSEC-ESP
ah 51 IPSEC-AH
skip 57 SKIP
ipv6-icmp 58 IPv6-ICMP
ipv6-nonxt 59 IPv6-NoNxt
ipv6-opts 60 IPv6-Opts
vmtp 81 VMTP
eigrp 88 EIGRP
ospf 89 OSPFIGP OSPF
ax.25 93 AX.25
ipip 94 IPIP
etherip 97 ETHERIP
encap 98 ENCAP
pim 103 PIM
ipcomp 108 IPCOMP
vrrp 112 VRRP
l2tp 115 L2TP
isis 124 ISIS
sctp 132 SCTP
fc 133 FC
mobility-header 135 Mobility-Header
udplite 136 UDPLite
mpls-in-ip 137 MPLS-in-IP
manet 138
hip 139 HIP
shim6 140 Shim6
wesp 141 WESP
rohc 142 ROHC
ethernet 143 Ethernet
";
