"""docs/glossary.md stays short, and no word is in it twice."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()
MOST_WORDS = 40


def test_the_glossary_has_few_words_and_each_of_them_once() -> None:
    rows = re.findall(r"^\| (.+?) \| ", PAGE, re.MULTILINE)
    words = [word for row in rows if row != "word" for word in row.split(", ")]
    assert len(words) <= MOST_WORDS
    assert len(set(words)) == len(words)
