import os
import sys

import pytest

from p2pd.workload.devices.interfaces import LOOPBACK, VARIABLES, bind_to


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)


def chosen() -> list[str | None]:
    return [os.environ.get(name) for name in VARIABLES]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1"])
def test_workers_of_one_machine_talk_over_loopback(address: str) -> None:
    bind_to(address)
    assert chosen() == [LOOPBACK] * 2


def test_what_the_operator_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[0], "eth7")
    bind_to("127.0.0.1")
    assert chosen() == ["eth7", LOOPBACK]


def test_an_address_of_no_interface_leaves_the_choice_to_torch() -> None:
    bind_to("192.0.2.1")
    assert chosen() == [None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="interfaces are asked the Linux way")
def test_the_interface_of_an_address_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2pd.workload.devices.interfaces.ip_address", lambda _: Far())
    bind_to("127.0.0.1")  # the one address that every machine has
    assert chosen() == ["lo", "lo"]


class Far:
    is_loopback, version = False, 4
