"""The report about the pre-release, made from canned results."""

from __future__ import annotations

from facts_next import table

JUNIT = """<testsuites><testsuite>
<testcase name="test_the_store_of_a_task[get nothing]" />
<testcase name="test_a_retry_and_a_clear"><failure message="assert 1 == 2&#10;more">long</failure></testcase>
<testcase name="test_another_run"><error message="KeyError: 'run-1'">long</error></testcase>
</testsuite></testsuites>"""


def test_what_differs_is_listed_with_the_first_line_of_what_was_seen() -> None:
    assert table(JUNIT).splitlines() == [
        "1 of 3 cases are the same on both.",
        "  test_a_retry_and_a_clear",
        "      assert 1 == 2",
        "  test_another_run",
        "      KeyError: 'run-1'",
    ]


def test_a_comparison_without_a_difference_is_one_line() -> None:
    assert table('<testsuite><testcase name="a" /></testsuite>') == "1 of 1 cases are the same on both."
