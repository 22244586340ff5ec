"""The rows of the tables: reading, writing, cleaning up and encrypting anew."""
