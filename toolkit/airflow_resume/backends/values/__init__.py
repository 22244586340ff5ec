"""What is stored: the text of a value, encrypted or not; in which scope; who wrote it; the reference to it."""
