"""The contract of a state store: a test class to subclass, and pytest runs every test of it on your store.

    class TestOrdersStore(StoreContract):
        @pytest.fixture
        def store(self):
            return OrdersStore()

The fixtures to supply are methods of the class; see `StoreContract`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import pytest

# Before they are imported, so that a failure shows what was compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("backend", "expiry", "extras", "keeping", "model", "processes"))
)

from airflow_resume.testing.contract.abilities import Ability  # noqa: E402
from airflow_resume.testing.contract.backend import OfABackend  # noqa: E402
from airflow_resume.testing.contract.expiry import Expiry  # noqa: E402
from airflow_resume.testing.contract.extras import Extras  # noqa: E402
from airflow_resume.testing.contract.keeping import Keeping  # noqa: E402
from airflow_resume.testing.contract.places import BackendStore  # noqa: E402
from airflow_resume.testing.contract.processes import Processes  # noqa: E402

__all__ = ["Ability", "BackendStore", "StoreContract"]


class StoreContract(Keeping, OfABackend, Expiry, Processes, Extras):
    """Every test that a state store, or a backend of Airflow's, should pass.

    Supply one of these fixtures, as a method of the subclass; each test gets an empty place of its own.

    - `store`: a `StateStore`: get, set, delete.
    - `open_store`: a function that opens the same place again, in any process that calls it. It is not called
      before a test needs it, so the place may be one that was never used.
    - `backend`: a `BaseStoreBackend` of Airflow's; the store is then its first scope.
    - `open_backend`: likewise a function.
    - `cleanup` (optional): a function without arguments that deletes what has expired, if neither the store nor the
      backend has a method of that name.

    What was supplied, and the methods that the store has, are its abilities (`Ability`). The tests of one that is
    missing are skipped, and say how to supply it. The fixture `abilities` has them as data, and the report of each
    test that needs some names them in `user_properties`, as `("ability", name)`.

    `test_abilities` prints which were found (`pytest -rP -k test_abilities`), and its report has each of them in
    `user_properties`, as `("has " + name, found)`.

    A subclass is collected whatever its name is. `__test__ = False` in its body makes it a base class for others.
    """

    __test__ = False

    differs: ClassVar[dict[str, str]] = {}
    """Where the store is known not to keep the contract: the name of the test, with its `[case]`, and the reason.
    Such a test is expected to fail, and fails the run when it passes."""

    promises: ClassVar[Collection[Ability]] = ()
    """Abilities that must be found: otherwise a method that was renamed would lose its tests unnoticed."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__test__" not in vars(cls):
            cls.__test__ = True
        unknown = [name for name in cls.differs if not hasattr(cls, name.partition("[")[0])]
        if unknown:
            raise TypeError(f"{cls.__name__}.differs names tests that are not in the contract: {unknown}")
