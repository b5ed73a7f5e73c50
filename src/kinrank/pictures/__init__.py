"""Pictures in folders and zips, from anywhere: found, read and decoded within bounds."""
