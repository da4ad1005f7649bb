import json
import logging
from pathlib import Path

import pytest

from p2pd.config.node import DataSettings
from p2pd.daemon.data import named_in, sources_of

ONE, OTHER = "https://one/set", "http://other:8000/set"


@pytest.mark.parametrize(
    ("config", "urls"),
    [
        ({}, ()),
        ({"sources": ""}, ()),
        ({"sources": f"{ONE} {OTHER}"}, (ONE, OTHER)),
        ({"sources": [ONE, OTHER]}, (ONE, OTHER)),
        ({"sources": 3}, ()),
        ({"sources": [ONE] * 100}, (ONE,) * 16),
    ],
)
def test_a_revision_names_sources_in_its_workloads_config(
    config: dict[str, object], urls: tuple[str, ...]
) -> None:
    assert named_in(json.dumps(config)) == urls


def test_what_lies_on_this_machine_is_not_for_a_revision_to_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    config = json.dumps({"sources": ["/etc", "file:///etc", "s3://bucket", 7, ONE]})
    assert named_in(config) == (ONE,)
    assert len(caplog.messages) == 4


def test_the_operators_come_first_and_must_be_right(tmp_path: Path) -> None:
    settings = DataSettings(sources=(str(tmp_path), ONE))
    assert [one.name for one in sources_of(settings, None)] == [str(tmp_path), ONE]
    with pytest.raises(ValueError, match="sources: 'set' is neither"):
        DataSettings(sources=("set",))
