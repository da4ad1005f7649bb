"""What each implementation of port Ledger does. Every function takes an empty ledger."""

from p2pd.ports import Ledger, Table, Write


def put(key: bytes, value: bytes | None, table: Table = Table.OBJECTS) -> Write:
    return Write(table, key, value)


async def writes_are_kept_and_deleted_together(ledger: Ledger) -> None:
    await ledger.commit([put(b"a", b"1"), put(b"b", b"2"), put(b"a", b"9", Table.PEERS)])
    await ledger.commit([put(b"a", None), put(b"b", b"3"), put(b"missing", None)])
    assert ledger.get(Table.OBJECTS, b"a") is None
    assert ledger.get(Table.OBJECTS, b"b") == b"3"
    assert ledger.get(Table.PEERS, b"a") == b"9"


async def the_last_write_to_a_key_wins(ledger: Ledger) -> None:
    await ledger.commit([put(b"a", b"1"), put(b"a", None), put(b"a", b"2"), put(b"b", b"1")])
    await ledger.commit([put(b"b", b"2"), put(b"b", None)])
    assert ledger.scan(Table.OBJECTS, b"") == [(b"a", b"2")]


async def scan_goes_up_within_a_prefix(ledger: Ledger) -> None:
    keys = [b"\x01\xff", b"\x01\xff\x00", b"\x01\xff\xff", b"\x02", b"\x01", b"\x01\x05"]
    await ledger.commit([put(key, key) for key in keys])
    assert [key for key, _ in ledger.scan(Table.OBJECTS, b"\x01\xff")] == [
        b"\x01\xff",
        b"\x01\xff\x00",
        b"\x01\xff\xff",
    ]
    assert [key for key, _ in ledger.scan(Table.OBJECTS, b"")] == sorted(keys)
    assert ledger.scan(Table.OBJECTS, b"\x03") == []
    assert ledger.scan(Table.VOTING, b"") == []


async def scan_goes_on_after_a_key(ledger: Ledger) -> None:
    keys = [bytes([7, n]) for n in range(10)]
    await ledger.commit([put(key, b"") for key in [*keys, b"\x08"]])
    seen: list[bytes] = []
    while page := ledger.scan(Table.OBJECTS, b"\x07", after=seen[-1] if seen else b"", limit=3):
        assert len(page) <= 3
        seen += [key for key, _ in page]
    assert seen == keys


async def last_is_the_greatest_key_of_a_prefix(ledger: Ledger) -> None:
    keys = [b"\xff\x01", b"\xff\xff", b"\x05\x01", b"\x05\x09", b"\x06"]
    await ledger.commit([put(key, key) for key in keys])
    assert ledger.last(Table.OBJECTS, b"\x05") == (b"\x05\x09", b"\x05\x09")
    assert ledger.last(Table.OBJECTS, b"\xff") == (b"\xff\xff", b"\xff\xff")
    assert ledger.last(Table.OBJECTS, b"") == (b"\xff\xff", b"\xff\xff")
    assert ledger.last(Table.OBJECTS, b"\x04") is None
    assert ledger.last(Table.VOTING, b"") is None


CONTRACT = (
    writes_are_kept_and_deleted_together,
    the_last_write_to_a_key_wins,
    scan_goes_up_within_a_prefix,
    scan_goes_on_after_a_key,
    last_is_the_greatest_key_of_a_prefix,
)
