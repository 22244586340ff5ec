"""Every public name is explained, and what is not is found; the pages beside docs/ are pages of the site."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

import airflow_resume
import airflow_resume_mixins

pytest.importorskip("griffe", reason="the tools of the site need Python 3.11: make docs")
pytest.importorskip("mkdocs", reason="the tools of the site need Python 3.11: make docs")

DOCS = Path(__file__).parents[2] / "docs"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


public_names = loaded("public_names")
PACKAGES = [Path(package.__path__[0]).parent for package in (airflow_resume, airflow_resume_mixins)]


def test_every_public_name_is_explained() -> None:
    assert public_names.undocumented(public_names.SURFACES, PACKAGES) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def f() -> None: ...", "airflow_resume.f: no docstring"),
        ('def f(a: int) -> None:\n    """Do."""', "airflow_resume.f(a=): no entry under Args"),
        (
            'def f() -> None:\n    """Do.\n\n    Args:\n        a: of it.\n    """',
            "airflow_resume.f: an entry under Args is about a, which is no parameter",
        ),
        (
            'def f() -> None:\n    """Do."""\n    raise ValueError("no")',
            "airflow_resume.f: raises ValueError, and has no entry for it under Raises",
        ),
        ("class f: ...", "airflow_resume.f: no docstring"),
        (
            'class f:\n    """It."""\n\n    def __init__(self, a: int) -> None: ...',
            "airflow_resume.f(a=): no entry under Args",
        ),
        ('class f:\n    """It."""\n\n    def g(self) -> None: ...', "airflow_resume.f.g: no docstring"),
        ('class f:\n    """It."""\n\n    a = 1', "airflow_resume.f.a: no docstring"),
        ('class f:\n    """It."""\n\n    @property\n    def a(self) -> int: ...', "airflow_resume.f.a: no docstring"),
    ],
)
def test_what_is_not_explained_is_found(tmp_path: Path, source: str, fault: str) -> None:
    assert faults_of(tmp_path, source) == [fault]


@pytest.mark.parametrize(
    "source",
    [
        'def f(a: int) -> None:\n    """Do.\n\n    Args:\n        a: how often.\n    """',
        'def f() -> None:\n    """Do.\n\n    Raises:\n        ValueError: no.\n    """\n    raise ValueError',
        'def f() -> None:\n    """F.\n\n    Raises:\n        KeyError, OSError: no.\n    """\n    raise OSError(1)',
        'class f:\n    """It. Made by `g`."""\n\n    def __init__(self, a: int) -> None: ...',
        'class f:\n    """It."""\n\n    a = 1\n    """One."""',
        'class f:\n    """It.\n\n    Attributes:\n        a: one.\n    """\n\n    a = 1',
        'class f:\n    """It.\n\n    Fields:\n        a: one.\n    """\n\n    a: int',
        'class _B:\n    def g(self):\n        """Do."""\n\n\nclass f(_B):\n    """It."""\n\n    def g(self): ...',
    ],
)
def test_what_is_explained_is_no_fault(tmp_path: Path, source: str) -> None:
    assert faults_of(tmp_path, source) == []


def faults_of(folder: Path, source: str) -> list[str]:
    (folder / "airflow_resume").mkdir()
    (folder / "airflow_resume" / "__init__.py").write_text(f'{source}\n\n\n__all__ = ["f"]\n')
    return cast("list[str]", public_names.undocumented(["airflow_resume"], [folder]))


# --- the site ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site_pages() -> ModuleType:
    return loaded("site_pages")


@pytest.mark.parametrize(
    ("page", "link", "in_site"),
    [
        ("index.md", "docs/jobs.md#hooks", "jobs.md#hooks"),
        ("index.md", "CONTRIBUTING.md", "contributing.md"),
        ("jobs.md", "loops.md", "loops.md"),
        ("jobs.md", "../CHANGELOG.md", "changelog.md"),
        ("api/index.md", "../../CHANGELOG.md", "../changelog.md"),
        ("api/index.md", "../jobs.md", "../jobs.md"),
        ("jobs.md", "#hooks", "#hooks"),
    ],
)
def test_a_link_that_works_in_the_repository_works_in_the_site(
    site_pages: ModuleType, page: str, link: str, in_site: str
) -> None:
    assert site_pages.links_of_site(f"see [it]({link}).", page) == f"see [it]({in_site})."
