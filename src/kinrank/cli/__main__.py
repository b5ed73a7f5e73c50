"""Entry point of `python -m kinrank.cli`, which equals the command `kinrank`."""

from kinrank_entry.start import main

main()
