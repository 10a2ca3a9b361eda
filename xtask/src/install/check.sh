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
within dpkg-query -W -f '${Package} ${Version}\n' ringtap ringtap-libpcap
within dpkg-query -W -f '${Status}' libpcap0.8 2>/dev/null | grep -q 'ok installed' &&
    fail "Debian's library is still there"
within ringtap --version
within ringtap bench --version
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
    within sh -c 'cd /packages && cc version.c -o version $(pkg-config --cflags --libs libpcap) && ./version'
fi
# And back.
within apt-get -y remove ringtap-libpcap >"$stage/log" 2>&1 || fail "$(cat "$stage/log")"
echo "the packages can be installed, used and removed"
