"""What released versions left in the state stores, and records that are damaged."""
