"""The part of .ci/kafka that kills the broker, and reads what has come.

usage: kafka_run.py RINGTAP FOLDER
"""

import collections
import json
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

PORT = 19092
# With TLS and a password.
SECURE_PORT = PORT + 2
PARTITIONS = 4
FLOWS = 100_000
# Packets of a flow, so far apart that each is a record.
PACKETS = 5
GAP = 10


def capture(path):
    """Writes flows whose packets go in both directions by turns."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for turn in range(PACKETS):
            for flow in range(FLOWS):
                ends = [(0x0A000000 + flow, 40000), (0xC6336401, 53)]
                (source, sport), (target, dport) = ends if turn % 2 == 0 else ends[::-1]
                udp = struct.pack(">HHHH", sport, dport, 8, 0)
                ip = struct.pack(">BBHHHBBHII", 0x45, 0, 28, 0, 0, 64, 17, 0, source, target)
                second, micros = divmod(flow * 10, 1_000_000)
                head = (1_700_000_000 + turn * GAP + second, micros, 28, 28)
                file.write(struct.pack("<IIII", *head) + ip + udp)


class Broker:
    """The broker of contrib/try/kafka."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def start(self):
        with socket.socket() as taken:
            if taken.connect_ex(("127.0.0.1", PORT)) == 0:
                sys.exit(f"port {PORT} is taken")
        command = ["contrib/try/kafka", str(self.folder), str(PORT)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", PORT), 1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.2)
        sys.exit("the broker does not start")

    def kill(self):
        # The Java program too.
        subprocess.run(["pkill", "-KILL", "-s", str(self.process.pid)], check=False)
        self.process.wait()


def message_class(folder):
    files = descriptor_pb2.FileDescriptorSet.FromString((folder / "flow.desc").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ringtap.Flow"))


def command_of(ringtap, file, address):
    command = [ringtap, "flow", "-r", str(file), "--top", "0", "--json-stats", "--active", "5", "--inactive", "2"]
    return command + ["--store-name", "p1", "--export", address]


def run(ringtap, file, topic, form, broker):
    """Sends the flows of the file, and kills the broker in the middle."""
    if topic == "secure":
        command = command_of(ringtap, file, f"kafka:127.0.0.1:{SECURE_PORT}/{topic}")
        command += ["--kafka-config", str(broker.folder / "client.conf")]
    else:
        command = command_of(ringtap, file, f"kafka:127.0.0.1:{PORT}/{topic}")
    command += ["--kafka-value", form]
    probe = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(probe.stderr), daemon=True)
    reader.start()
    try:
        before = wait_for_some(topic)
        broker.kill()
        assert probe.poll() is None, "it has ended before the broker was killed"
        time.sleep(4)
        broker.start()
        assert probe.wait(300) == 0, lines
    finally:
        probe.kill()
    reader.join()
    print(f"{topic}: the broker was killed after {before} records")
    report = json.loads(lines[-1])["exports"][0]
    print(f"{topic}: {report['flows']} records sent, {report['lost_flows']} lost")
    return report


def wait_for_some(topic):
    """Waits until some records are in the topic, and returns their number."""
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{PORT}")
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        count = sum(consumer.end_offsets(places).values())
        if count > 0:
            consumer.close()
            assert count < FLOWS * PACKETS, "all records are there before the broker was killed"
            return count
    sys.exit("no record comes")


def read(topic, decode):
    """Returns the records of each flow by key: its partitions, and times in the order of their arrival."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=f"127.0.0.1:{PORT}", auto_offset_reset="earliest", consumer_timeout_ms=5000
    )
    flows = collections.defaultdict(lambda: (set(), []))
    packets = 0
    for message in consumer:
        partitions, times = flows[message.key]
        time_of, count = decode(message)
        partitions.add(message.partition)
        times.append(time_of)
        packets += count
    return flows, packets


def refused(ringtap, file, broker, change):
    """Sends with settings that the broker, or ringtap, must refuse; returns what ringtap says. No record arrives."""
    settings = (broker.folder / "client.conf").read_text()
    changed = broker.folder / "changed.conf"
    changed.write_text(change(settings))
    assert changed.read_text() != settings
    command = command_of(ringtap, file, f"kafka:127.0.0.1:{SECURE_PORT}/refused")
    probe = subprocess.run(
        command + ["--kafka-config", str(changed)], stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    report = json.loads(probe.stderr.splitlines()[-1])["exports"][0]
    assert report["flows"] == 0 and report["lost_flows"] > 0, probe.stderr
    assert "only-to-try" not in probe.stderr and "wrong-one" not in probe.stderr, "a password is shown"
    return probe.stderr


def check_refusals(ringtap, file, broker):
    wrong = refused(ringtap, file, broker, lambda text: text.replace("only-to-try", "wrong-one"))
    assert "uthentication" in wrong, wrong
    # A broker of another authority.
    other = broker.folder / "tls" / "other.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"]
    request += ["-keyout", "/dev/null", "-out", str(other)]
    subprocess.run(request, check=True, stderr=subprocess.DEVNULL)
    strange = refused(ringtap, file, broker, lambda text: text.replace("tls/ca.pem", "tls/other.pem"))
    assert "certificate" in strange, strange
    plain = refused(ringtap, file, broker, lambda text: text.replace("SASL_SSL", "PLAINTEXT"))
    print("a wrong password, a strange certificate and a connection without TLS are refused:")
    for text in (wrong, strange, plain):
        print("   ", text.splitlines()[0])


def check(form, topic, report, decode):
    flows, packets = read(topic, decode)
    records = sum(len(times) for _, times in flows.values())
    assert records == report["flows"], f"{records} in the topic, {report['flows']} were acknowledged"
    assert records + report["lost_flows"] == FLOWS * PACKETS, "each packet is a record"
    assert packets == records
    if report["lost_flows"] == 0:
        assert len(flows) == FLOWS, f"{len(flows)} keys: one for both directions"
    used = collections.Counter()
    for partitions, times in flows.values():
        assert len(partitions) == 1, "a flow is in one partition"
        assert times == sorted(times) and len(set(times)) == len(times), f"order, and each once: {times}"
        used.update(partitions)
    assert len(used) == PARTITIONS, f"all partitions are used: {used}"
    print(f"{form}: {records} records in the topic, each once, {len(flows)} flows in order, partitions {sorted(used.values())}")


def main():
    ringtap, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    file = folder / "flows.pcap"
    capture(file)
    shutil.rmtree(folder / "broker" / "data", ignore_errors=True)
    broker = Broker(folder / "broker")
    broker.start()
    Flow = message_class(folder)

    def of_protobuf(message):
        headers = dict(message.headers)
        assert headers["ringtap-form"] == b"protobuf" and headers["ringtap-exporter"] == b"p1"
        flow = Flow.FromString(message.value)
        assert len(flow.src) == 16 and flow.protocol == 17 and flow.exporter == "p1"
        return flow.first, flow.packets

    def of_json(message):
        flow = json.loads(message.value)
        return flow["first"], flow["packets"]

    try:
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{PORT}")
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in ("json", "protobuf", "secure", "refused")])
        admin.close()
        for topic, form, decode in (
            ("protobuf", "protobuf", of_protobuf),
            ("json", "json", of_json),
            ("secure", "json", of_json),
        ):
            check(topic, topic, run(ringtap, file, topic, form, broker), decode)
        small = folder / "small.pcap"
        small.write_bytes(file.read_bytes()[: 24 + 100 * 44])
        check_refusals(ringtap, small, broker)
        assert read("refused", of_json)[1] == 0
    finally:
        broker.kill()
        file.unlink()


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
main()
