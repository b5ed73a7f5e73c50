"""Settings -> processes that listen, within limits, and are replaced when they die."""
