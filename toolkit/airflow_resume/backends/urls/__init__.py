"""URLs of databases: read strictly, and never shown with what is secret in them, by ourselves or by a driver."""
