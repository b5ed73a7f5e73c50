"""Command line: each command parses its flags, makes one call of the library, and prints text or JSON."""
