"""`python -m kinrank.cli` -> the same as the command `kinrank`."""

from kinrank_entry.start import main

main()
