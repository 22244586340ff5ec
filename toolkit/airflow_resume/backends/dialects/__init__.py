"""The kinds of databases: `base` has what each of them must define, and `registry` has all of them.

A new database is one module here and one entry in `registry`. What every database must define has no default.
"""
