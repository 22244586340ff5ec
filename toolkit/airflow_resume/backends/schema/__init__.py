"""The tables, and how an older database is brought up to the newest version of them."""
