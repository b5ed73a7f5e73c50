"""`python -m kinrank.cli` -> the same as the command `kinrank`."""

from kinrank.cli import main

main()
