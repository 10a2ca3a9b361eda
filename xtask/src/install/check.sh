# Installs packages into a copy of the system, and tries them. In namespaces of its own, of mounts and
# of the network: what is done here is gone with the last process.
set -eu
stage=$(mktemp -d)
trap 'umount -R -l "$stage"; rmdir "$stage"' EXIT
mount -t tmpfs tmpfs "$stage"
mkdir "$stage/upper" "$stage/work" "$stage/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$stage/upper,workdir=$stage/work" "$stage/root"
mount -t proc proc "$stage/root/proc"
mount --rbind /dev "$stage/root/dev"
mkdir "$stage/root/packages"
cp "$@" "$stage/root/packages"
ip link set lo up

# Prefixes a command that runs in the copy.
within() {
    chroot "$stage/root" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
fail() {
    echo "$*" >&2
    exit 1
}

within sh -c 'apt-get -y install /packages/*.deb' >"$stage/log" 2>&1 || {
    cat "$stage/log" >&2
    fail "apt cannot install the packages"
}
within apt-get check >"$stage/log" 2>&1 || fail "$(cat "$stage/log")"
[ -z "$(within dpkg --audit)" ] || fail "$(within dpkg --audit)"
names=$(for package in "$@"; do dpkg-deb --field "$package" Package; done)
within dpkg-query -W -f '${Package} ${Version}\n' $names
within ringtap --version
within ringtap bench --version
# A capture without packets, to a broker that is not there: a ringtap without Kafka refuses the address.
printf '\324\303\262\241\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0' |
    within ringtap flow -r - --top 0 --export kafka:127.0.0.1:9/flows || fail "ringtap has no Kafka"
case $names in
*python3-ringtap*)
    within python3 -c 'import ringtap
print(ringtap.__version__, ringtap.Filter("tcp port 80", "EN10MB").matches(bytes(60)))' ||
        fail "Python does not load its package"
    ;;
esac
case $names in
*ringtap-query*) within ringtap query --help >/dev/null || fail "ringtap query does not run" ;;
esac
within ringtap config check /etc/ringtap/flow.toml /etc/ringtap/record.toml /etc/ringtap/web.toml
[ "$(within stat -c '%a %U %G' /usr/bin/ringtap)" = "755 root root" ] || fail "ringtap has other rights than root's"
within getcap /usr/bin/ringtap | grep . && fail "ringtap has capabilities that nobody asked for"
if within sh -c 'command -v tshark' >/dev/null; then
    within tshark -D 2>/dev/null | grep -q ringtap-packet-lo || fail "tshark lists no interface of ringtap"
fi
within ringtap-libpcap-default on
if within sh -c 'command -v tcpdump' >/dev/null; then
    within tcpdump --version 2>&1 | grep ringtap || fail "tcpdump does not run on ringtap"
    within tcpdump -i lo -c 1 -nn udp >"$stage/packet" 2>"$stage/log" &
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        sleep 0.5
        within python3 -c 'import socket; socket.socket(2, 2).sendto(b"x", ("127.0.0.1", 9))'
        [ -s "$stage/packet" ] && break
    done
    cat "$stage/packet"
    [ -s "$stage/packet" ] || fail "tcpdump captures nothing: $(cat "$stage/log")"
fi
if within sh -c 'command -v cc && command -v pkg-config' >/dev/null; then
    cat >"$stage/root/packages/version.c" <<'END'
#include <pcap/pcap.h>
int main(void) { return puts(pcap_lib_version()) < 0; }
END
    within sh -c 'cd /packages && cc version.c -o version $(PKG_CONFIG_PATH=$(echo /usr/lib/*/ringtap/pkgconfig) pkg-config --cflags --libs libpcap) &&
        ./version'
fi
# The other answer of the question.
echo ringtap ringtap/capture-as-group boolean true | within debconf-set-selections
within dpkg-reconfigure ringtap
[ "$(within stat -c '%a %U %G' /usr/bin/ringtap)" = "750 root ringtap" ] || fail "the group cannot run ringtap"
# An overlay in memory may hold no capabilities; the package says so then.
within getcap /usr/bin/ringtap
# And back.
within apt-get -y purge $names >"$stage/log" 2>&1 || fail "$(cat "$stage/log")"
if within sh -c 'command -v tcpdump' >/dev/null; then
    within tcpdump --version 2>&1 | grep -q ringtap && fail "tcpdump still runs on ringtap"
fi
for name in /etc/ringtap /usr/bin/ringtap /usr/share/doc/ringtap /usr/bin/ringtap-query \
    /usr/lib/python3/dist-packages/ringtap /etc/ld.so.conf.d/00-ringtap.conf; do
    [ ! -e "$stage/root$name" ] || fail "$name is left"
done
within getent group ringtap && fail "the group is left"
echo "the packages can be installed, used, configured and purged"
