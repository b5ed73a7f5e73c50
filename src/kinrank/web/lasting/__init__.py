"""Changes -> a log, then the folder: what is acknowledged survives the death of the process."""
