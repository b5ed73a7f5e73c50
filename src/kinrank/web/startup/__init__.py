"""Start of a service: turns the arguments of `kinrank serve` into Settings, with a prepared gallery on disk."""
