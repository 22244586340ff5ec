"""What the testing kit is compared with."""
