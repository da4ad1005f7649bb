import pytest

from p2pd.bench.rows import COLUMNS, Row, to_json


def test_a_ratio_is_value_over_floor() -> None:
    assert Row("copy", 3.0, "GB/s", 12.0, "memcpy").ratio == 0.25
    assert Row("copy", 3.0, "GB/s").ratio is None


def test_a_row_is_json_with_all_keys_whether_it_has_a_floor_or_not() -> None:
    rows = (Row("copy", 3.0, "GB/s", 12.0, "memcpy"), Row("memory", 9.0, "MB"))
    assert to_json("merge", rows) == {
        "bench": "merge",
        "rows": [
            {
                "name": "copy",
                "value": 3.0,
                "unit": "GB/s",
                "floor": 12.0,
                "floor_name": "memcpy",
                "ratio": 0.25,
            },
            {
                "name": "memory",
                "value": 9.0,
                "unit": "MB",
                "floor": None,
                "floor_name": "",
                "ratio": None,
            },
        ],
    }


def test_a_floor_comes_with_its_name() -> None:
    with pytest.raises(ValueError, match="must have both"):
        Row("copy", 3.0, "GB/s", 12.0)
    with pytest.raises(ValueError, match="must have both"):
        Row("copy", 3.0, "GB/s", None, "memcpy")


def test_cells_are_as_many_as_columns_and_round_to_what_was_measured() -> None:
    assert Row("copy", 0.123456, "s", 0.05, "torch").cells() == (
        "copy",
        "0.123",
        "s",
        "2.47",
        "0.05",
        "torch",
    )
    assert Row("bytes", 1234567.8, "B").cells()[1] == "1,234,568"
    assert len(Row("bytes", 1.0, "B").cells()) == len(COLUMNS)
