"""Self-contained HTML pages and figures of results."""
