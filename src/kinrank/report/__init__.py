"""Results -> self-contained HTML pages and figures."""
