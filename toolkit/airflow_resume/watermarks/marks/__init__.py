"""The mark of an asset, as it is stored."""
