"""Server processes: they listen within limits, and are replaced when they die."""
