"""The asset stores that a task gets from its context."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from airflow.sdk.definitions.asset import Asset, AssetNameRef, AssetUriRef
from pydantic import JsonValue

from airflow_resume.testing.fakes.stores import FakeAssetStore

AnyAsset: TypeAlias = Asset | AssetNameRef | AssetUriRef
"""How an inlet or an outlet names an asset."""


class FakeAssetStores:
    """The asset stores of one attempt: Airflow's `context["asset_state_store"]`.

    Subscripted by an asset or a reference by name, it gives the store of the asset that the task declares by that name.
    Subscripted by a reference by URI, it finds only what the task declares by a reference by URI. With exactly one
    asset, the methods of `FakeAssetStore` can be called on it directly.

    Args:
        declared: the inlets and outlets of the task.
        store_of: makes the store of an asset; by default, an empty one.
    """

    def __init__(
        self,
        declared: Iterable[AnyAsset],
        store_of: Callable[[AnyAsset], FakeAssetStore] = lambda _asset: FakeAssetStore(),
    ) -> None:
        self._by_name: dict[str, FakeAssetStore] = {}
        self._by_uri: dict[str, FakeAssetStore] = {}
        for asset in declared:
            stores, name = self._place(asset)
            if name not in stores:
                stores[name] = store_of(asset)

    def _place(self, asset: object) -> tuple[dict[str, FakeAssetStore], str]:
        if isinstance(asset, (Asset, AssetNameRef)):
            return self._by_name, asset.name
        if isinstance(asset, AssetUriRef):
            return self._by_uri, asset.uri
        raise TypeError(f"Expected Asset, AssetNameRef, or AssetUriRef; got {type(asset).__name__}")

    def __getitem__(self, asset: AnyAsset) -> FakeAssetStore:
        """The store of an asset.

        Raises:
            KeyError: the task does not declare it, or not in this way.
            TypeError: it is not an asset.
        """
        stores, name = self._place(asset)
        if name not in stores:
            raise KeyError(f"{asset!r} is not in this task's inlets or outlets")
        return stores[name]

    def __repr__(self) -> str:
        return f"<FakeAssetStores {', '.join([*self._by_name, *self._by_uri])}>"

    @property
    def all(self) -> list[FakeAssetStore]:
        """Every store, in the order of declaration, those by URI last."""
        return [*self._by_name.values(), *self._by_uri.values()]

    @property
    def single(self) -> FakeAssetStore:
        """The only store.

        Raises:
            ValueError: the task declares none or several.
        """
        if len(self.all) != 1:
            raise ValueError(
                f"Task has {len(self.all)} concrete inlets and outlets — use context['asset_state_store'][MY_ASSET]"
                f" to specify which"
            )
        return self.all[0]

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """As `FakeAssetStore.get`, of the only store.

        Args:
            key: any text.
            default: what is returned when there is no value.
        """
        return self.single.get(key, default)

    def set(self, key: str, value: JsonValue) -> None:
        """As `FakeAssetStore.set`, of the only store.

        Args:
            key: any text.
            value: JSON, not None.
        """
        self.single.set(key, value)

    def delete(self, key: str) -> None:
        """As `FakeAssetStore.delete`, of the only store.

        Args:
            key: any text.
        """
        self.single.delete(key)

    def clear(self) -> None:
        """As `FakeAssetStore.clear`, of the only store."""
        self.single.clear()

    async def aget(self, key: str, default: JsonValue = None) -> JsonValue:
        """As `FakeAssetStore.aget`, of the only store.

        Args:
            key: any text.
            default: what is returned when there is no value.
        """
        return await self.single.aget(key, default)

    async def aset(self, key: str, value: JsonValue) -> None:
        """As `FakeAssetStore.aset`, of the only store.

        Args:
            key: any text.
            value: JSON, not None.
        """
        await self.single.aset(key, value)

    async def adelete(self, key: str) -> None:
        """As `FakeAssetStore.adelete`, of the only store.

        Args:
            key: any text.
        """
        await self.single.adelete(key)

    async def aclear(self) -> None:
        """As `FakeAssetStore.aclear`, of the only store."""
        await self.single.aclear()
