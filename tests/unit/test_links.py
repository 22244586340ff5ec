"""The address of a job: what may be shown of it as a link."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_resume.links import LINK_KEY, shown_link
from airflow_resume_mixins.job_link import JobLink


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("https://j.example/1", "https://j.example/1"),
        ("http://10.0.0.1:8080/#job/7/run/3", "http://10.0.0.1:8080/#job/7/run/3"),
        ("HTTPS://j.example/a%20b?o=1&q=x%26y#z", "https://j.example/a%20b?o=1&q=x%26y#z"),
        ("https://ana:s3cret@j.example/1", "https://j.example/1"),
        ("https://s3cret@j.example:8443/1?a=b", "https://j.example:8443/1?a=b"),
        ("https://j.example/1?o=7&access_token=s3cret&run=3", "https://j.example/1?o=7&run=3"),
        ("https://j.example/1?%74oken=s3cret", "https://j.example/1"),
        ("https://j.example/1?X-Amz-Credential=s3cret&X-Amz-Signature=s3cret", "https://j.example/1"),
        ("https://j.example/1?sv=1&sig=s3cret", "https://j.example/1?sv=1"),
        ("https://j.example/1#access_token=s3cret&x=1", "https://j.example/1#x=1"),
        ("https://j.example/1#/jobs?api_key=s3cret", "https://j.example/1#/jobs?"),
        ("https://j.example/1?authuser=0&region=eu", "https://j.example/1?authuser=0&region=eu"),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("//j.example/1", None),
        ("j.example/1", None),
        ("https://", None),
        ("https://[::1", None),
        ("https://j.example/\n1", None),
        ("https://j.example/ 1", None),
        ("https://j.example/\u202e1", None),
        ("https://j.example/" + "x" * 2_000, None),
        (None, None),
        (7, None),
    ],
)
def test_only_an_address_of_the_web_is_a_link_and_it_has_no_secret(address: Any, link: str | None) -> None:
    assert shown_link(address) == link
    assert "s3cret" not in str(link)


def test_the_key_is_the_one_under_which_airflow_looks_for_the_link() -> None:
    assert JobLink().xcom_key == LINK_KEY
