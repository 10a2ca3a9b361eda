"""Files: packets, batches, tables, flows, filters and errors."""

import itertools

import pytest
import ringtap
from conftest import BEGIN, CLIENT, RESOLVER, SERVER, frames, write_pcap


def test_packets_have_the_fields_of_their_headers(folder):
    packets = list(ringtap.read("web.pcap"))
    assert [packet.data for packet in packets] == frames()
    question, request = packets[0], packets[5]
    assert (question.src, question.dst, question.protocol) == (CLIENT, RESOLVER, 17)
    assert (question.src_port, question.dst_port) == (40000, 53)
    assert question.time_ns == BEGIN * 10**9
    assert packets[1].time_ns == BEGIN * 10**9 + 1_000_000
    assert (question.length, len(question), bytes(question)) == (75, 75, question.data)
    assert question.direction is None
    assert request.fields["tcp_flags"] == 0x18
    assert request.fields["payload"] == len(b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n")
    assert "vlan" not in request.fields
    assert str(question).startswith("IP 10.0.0.2.40000 > 10.0.0.1.53: 4660+ A? www.example.org.")


def test_filters_are_those_of_libpcap(folder):
    for expression, count in [("udp", 2), ("tcp[tcpflags] & tcp-syn != 0", 2), ("port 9", 0)]:
        assert sum(1 for _ in ringtap.read("web.pcap", expression)) == count
        compiled = ringtap.Filter(expression)
        assert sum(map(compiled, ringtap.read("web.pcap"))) == count
        assert sum(map(compiled.matches, frames())) == count
        assert sum(p.matches(expression) for p in ringtap.read("web.pcap")) == count
    assert ringtap.Filter("ip").program.startswith("(000) ldh      [12]")


def test_errors_name_the_place(folder):
    with pytest.raises(ringtap.FilterError, match=r"\^\^\^"):
        ringtap.read("web.pcap", "tcp prt 80")
    with pytest.raises(FileNotFoundError) as missing:
        ringtap.read("nothing.pcap")
    assert missing.value.filename == "nothing.pcap"
    (folder / "text").write_text("not a capture, but a text of some length")
    with pytest.raises(ringtap.Error, match="text: offset 0"):
        ringtap.read("text")
    with pytest.raises(ValueError, match="known are: time, interface"):
        ringtap.read("web.pcap").to_arrow(["nothing"])
    with pytest.raises(ringtap.Error, match="no such interface"):
        ringtap.capture("nothing0")
    with pytest.raises(ValueError, match="in or out or inout"):
        ringtap.capture("lo", direction="up")


def test_a_damaged_file_yields_its_packets_first(folder):
    whole = (folder / "web.pcap").read_bytes()
    (folder / "cut.pcap").write_bytes(whole[:-5])
    reader = ringtap.read("cut.pcap")
    assert sum(1 for _ in itertools.islice(reader, 9)) == 9
    with pytest.raises(ringtap.Error, match="cut.pcap"):
        next(reader)


def test_batches_are_sequences_and_tables(folder):
    reader = ringtap.read("web.pcap")
    batches = list(reader.batches(4))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert batches[0][-1].data == frames()[3]
    assert [packet.data for batch in batches for packet in batch] == frames()
    with pytest.raises(IndexError):
        batches[2][2]
    assert reader.batch() is None


def test_reading_goes_on_where_iteration_stopped(folder):
    reader = ringtap.read("web.pcap")
    first = [packet.data for packet in itertools.islice(reader, 3)]
    rest = reader.to_arrow(["data"]).column("data").to_pylist()
    assert first + rest == frames()


def test_count_ends_the_reader(folder):
    assert sum(1 for _ in ringtap.read("web.pcap", count=3)) == 3
    assert ringtap.read("web.pcap", count=0).batch() is None


def test_arrow_has_the_columns(folder):
    pyarrow = pytest.importorskip("pyarrow")
    table = ringtap.read("web.pcap").to_arrow()
    assert table.num_rows == 10
    assert table.schema.field("time").type == pyarrow.timestamp("ns", "UTC")
    assert table.column("src").to_pylist()[:2] == [CLIENT, RESOLVER]
    assert table.column("tcp_seq").to_pylist()[:3] == [None, None, 100]
    assert pyarrow.table(ringtap.read("web.pcap")).equals(table)
    batch = ringtap.read("web.pcap").batch(fields=["length", "data"])
    assert batch.to_arrow().column("data").to_pylist() == frames()
    assert batch.to_numpy()["length"].tolist() == [len(frame) for frame in frames()]


def test_pandas_and_polars_group(folder):
    pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame = ringtap.read("web.pcap").to_pandas()
    assert frame.groupby("dst").length.count().to_dict() == {CLIENT: 4, RESOLVER: 1, SERVER: 5}
    frame = ringtap.read("web.pcap").to_polars()
    assert frame.filter(polars.col("protocol") == 6)["payload"].sum() == 68


def test_flows_are_those_of_the_command(folder):
    pytest.importorskip("pyarrow")
    rows = ringtap.flows("web.pcap", fields="basic,names,http").to_arrow().to_pylist()
    web = next(row for row in rows if row["protocol"] == 6)
    assert (web["src"], web["dst_port"], web["packets"], web["reverse_packets"]) == (CLIENT, 80, 5, 3)
    assert (web["name"], web["http_method"], web["http_status"]) == ("www.example.org", "GET", 204)
    assert len(ringtap.flows("web.pcap", "udp")) == 1
    assert len(ringtap.flows("web.pcap", "udp", biflow=False)) == 2


def test_other_link_types_are_read(tmp_path):
    write_pcap(tmp_path / "raw.pcap", [frame[14:] for frame in frames()], link_type=101)
    reader = ringtap.read(tmp_path / "raw.pcap", "udp")
    assert [packet.src for packet in reader] == [CLIENT, RESOLVER]
    assert reader.interfaces == [{"name": None, "link_type": "RAW"}]


def test_a_closed_reader_has_ended(folder):
    with ringtap.read("web.pcap") as reader:
        kept = next(reader)
    assert reader.batch() is None
    with pytest.raises(ValueError, match="closed"):
        reader.stats()
    assert kept.src == CLIENT
