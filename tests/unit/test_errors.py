from tunewright.errors import Problem


def test_a_long_value_is_cut_and_its_length_told() -> None:
    text = str(Problem("field", "x" * 5000, "is too long"))
    assert text.startswith("field: 'xxx")
    assert len(text) < 300
    assert "(5002 characters)" in text


def test_a_value_too_large_to_write_is_named_by_its_kind() -> None:
    assert str(Problem("field", 10**5000, "is too large")) == "field: (a int too large to show): is too large"


def test_control_characters_never_reach_a_terminal() -> None:
    assert str(Problem("a\nb", "c", "d\x1b[31m")) == r"a\nb: 'c': d\x1b[31m"
