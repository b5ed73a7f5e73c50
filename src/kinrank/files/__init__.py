"""Readers and writers of files. Nothing in a file is executed."""
