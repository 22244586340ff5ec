"""What `[airflow_resume] upgrade` names: the classes that take the place of an operator's.

An item of the setting names *twins*: subclasses of `ResumableJobMixin` over an operator. Of the pack, only those that a
Dag may need are imported: see `index`. An item that is wrong is an `UpgradeError`, and the others count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from airflow.sdk import BaseOperator

from airflow_resume.compat import ResumableJobMixin as AirflowResumableJobMixin
from airflow_resume.errors import UpgradeError
from airflow_resume_mixins import providers
from airflow_resume_mixins.providers.index import INDEX, operators_for, short
from airflow_resume_mixins.resumable_job import ResumableJobMixin

PACK = providers.__name__
RECIPE = "Write its hooks, as docs/providers.md shows in 'Write a recipe in ten minutes'."


@dataclass(frozen=True, kw_only=True)
class Twin:
    """A class that takes the place of an operator's."""

    item: str
    kind: type
    operator: type
    """The class whose tasks it is for."""

    def of_one_class(self) -> Twin:
        """The same, with the item that names this class alone: the name of a module is made longer."""
        return replace(self, item=f"{self.item}.{self.kind.__name__}")


@dataclass(frozen=True, kw_only=True)
class Twins:
    """What the setting means."""

    by_operator: Mapping[type, Twin] = field(default_factory=dict)
    errors: Sequence[UpgradeError] = ()

    def of(self, kind: type) -> Twin | None:
        """The twin of the operator that is nearest to the class."""
        return next((self.by_operator[base] for base in kind.__mro__ if base in self.by_operator), None)


# --- the setting ----------------------------------------------------------------------------------------------


def twins_for(items: Sequence[str], kinds: Collection[type]) -> Twins:
    """As `read_twins`, but of the pack nothing is imported that is not for one of these classes.

    Args:
        items: of the setting.
        kinds: the classes of the tasks of a Dag.
    """
    needed = [(item, operators_for(item, kinds)) for item in items]
    return _together([_read(item, None if names is None else tuple(sorted(names))) for item, names in needed])


def read_twins(items: Sequence[str]) -> Twins:
    """Import all that the setting names. Of two twins of one operator, that of the later item is taken.

    Args:
        items: a module of the pack (`databricks`, `microsoft_azure` or `microsoft.azure`), a class in one
            (`amazon.AthenaOperator`), or the path of a class of your own (`my_company.operators.TrainOperator`).
    """
    return _together([_read(item, None) for item in items])


def _together(read: Sequence[Sequence[Twin] | UpgradeError]) -> Twins:
    return Twins(
        by_operator={twin.operator: twin for one in read if not isinstance(one, UpgradeError) for twin in one},
        errors=[one for one in read if isinstance(one, UpgradeError)],
    )


@lru_cache(maxsize=1000)
def _read(item: str, names: tuple[str, ...] | None) -> Sequence[Twin] | UpgradeError:
    """The twins of an item, or what is wrong with it.

    Args:
        item: of the setting.
        names: of the classes that are wanted, of those in its module of the pack; None: all.
    """
    try:
        return list(_twins_of(item, names))
    except UpgradeError as error:
        return error


def _twins_of(item: str, names: Sequence[str] | None) -> Iterable[Twin]:
    module, dot, name = short(item).partition(".")
    if names is not None:
        return [_named_twin(f"{PACK}.{module}", each, item) for each in names]
    if not dot:
        return _twins_in(_imported(f"{PACK}.{module}", item), item)
    if module in INDEX and "." not in name and name not in INDEX[module].operators:  # said without an import
        raise _no_class(f"{PACK}.{module}", name, item)
    if "." not in name and module in pack():
        return [_named_twin(f"{PACK}.{module}", name, item)]
    module, _, name = item.rpartition(".")
    return [_named_twin(module, name, item)]


def _named_twin(module: str, name: str, item: str) -> Twin:
    kind = _class_of(_imported(module, item), name, item)
    if not isinstance(kind, type):
        raise _no_class(module, name, item)
    return _twin(kind, item)


def pack() -> list[str]:
    """The names of the modules of the pack, one for each provider."""
    from pkgutil import iter_modules

    own = {"index", "policy", "provider_job", "reach", "twins", "upgrade"}
    return sorted(found.name for found in iter_modules(providers.__path__) if found.name not in own)


def _imported(module: str, item: str) -> ModuleType:
    if module.startswith(f"{PACK}.") and short(module).partition(".")[0] not in pack():
        raise UpgradeError(f"{_names(item)}, and there is no such module of the pack.", _instead(item), item=item)
    try:
        return import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _not_imported(module, item, error) from error


def _class_of(module: ModuleType, name: str, item: str) -> Any:
    """What the module has by this name, if anything. A module of the pack may import it only now."""
    try:
        return getattr(module, name, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _not_imported(module.__name__, item, error) from error


def _no_class(module: str, name: str, item: str) -> UpgradeError:
    remedy = _instead(item) if module.startswith(f"{PACK}.") else f"Name a class of {module}: it has none of this name."
    return UpgradeError(f"{_names(item)}: {module} has no class {name}.", remedy, item=item)


def _not_imported(module: str, item: str, error: BaseException) -> UpgradeError:
    provider = module.rpartition(".")[2]
    return UpgradeError(
        f"{_names(item)}, and {module} cannot be imported: {type(error).__name__}: {error}",
        f"Install or upgrade the provider, apache-airflow-providers-{_distribution(provider)}, here and in the"
        " workers, or remove the item."
        if module.startswith(f"{PACK}.")
        else f"{_instead(item)} A module of your own must be importable in the Dag processor and in the workers,"
        " without the folder of the Dags.",
        item=item,
    )


def _instead(item: str) -> str:
    """What to write instead of a wrong item: what is spelt like it, or what there is."""
    if any(sign in item for sign in " \n;:=[]()'\""):
        return "Write the names of modules or classes, separated by commas: amazon, google.BigQueryInsertJobOperator"
    spelt = item.lower().removesuffix(".*").rstrip(".")
    known = _spellings()
    tail = spelt.rpartition(".")[2]
    close = [*get_close_matches(spelt, known, n=1, cutoff=0.8), *(name for name in (tail,) if name in known)]
    if spelt in known or close:
        return f"Write {known.get(spelt) or known[close[0]]} instead."
    module = item.partition(".")[0]
    if module in INDEX:
        return f"In {module} there are: {', '.join(INDEX[module].operators)}."
    return f"Modules of the pack: {', '.join(pack()) or 'none'}. A class of your own is named by its whole path."


def _spellings() -> dict[str, str]:
    """What people may write, in small letters, and the item that is meant."""
    modules = {module: module for module in pack()}
    packages = {entry.package.removeprefix("airflow.providers."): module for module, entry in INDEX.items()}
    classes = {f"{module}.{name}": f"{module}.{name}" for module, entry in INDEX.items() for name in entry.operators}
    bare = {item.partition(".")[2]: item for item in classes}
    return {name.lower(): item for name, item in (bare | packages | classes | modules).items()}


def _distribution(module: str) -> str:
    """The end of the name of the provider's package."""
    apart = {"kubernetes": "cncf-kubernetes", "livy": "apache-livy", "spark": "apache-spark"}
    return apart.get(module, module.replace("_", "-"))


def _twins_in(module: ModuleType, item: str) -> Iterator[Twin]:
    """Of all classes that the module defines; its base classes without an operator are passed over."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for kind in (_class_of(module, name, item) for name in names):
        if not isinstance(kind, type) or not f"{kind.__module__}.".startswith(f"{module.__name__}."):
            continue
        if _operator_of(kind) is not None:
            yield _twin(kind, item)


def _twin(kind: type, item: str) -> Twin:
    operator = _operator_of(kind)
    if operator is None:
        raise UpgradeError(
            f"{_names(item)}, which takes the place of no operator.",
            "It must be a subclass of ProviderJob or ResumableJobMixin, and of the operator that it is for, such as"
            " class TrainOperator(ProviderJob, upstream.TrainOperator).",
            item=item,
        )
    own = kind.__mro__[: kind.__mro__.index(operator)]
    if any("__init__" in vars(base) for base in own if base not in (ResumableJobMixin, AirflowResumableJobMixin)):
        raise UpgradeError(
            f"{_names(item)}, and {kind.__qualname__} has an __init__ of its own, which cannot be called for a task"
            " that was already made.",
            "Write its defaults as attributes of the class.",
            item=item,
        )
    if (lacks := kind.lacks()) is not None:  # type: ignore[attr-defined]
        raise UpgradeError(f"{_names(item)}, and {lacks}", RECIPE, item=item)
    return Twin(item=item, kind=kind, operator=operator)


def _operator_of(kind: type) -> type | None:
    """The operator that a twin takes the place of: the first of its bases that is an operator and does not resume."""
    if not issubclass(kind, ResumableJobMixin):
        return None
    bases = (
        base for base in kind.__mro__ if issubclass(base, BaseOperator) and not issubclass(base, ResumableJobMixin)
    )
    operator = next(bases, BaseOperator)
    return None if operator is BaseOperator else operator


def _names(item: str) -> str:
    return f"[airflow_resume] upgrade names {item}"
