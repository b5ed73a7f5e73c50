"""HTTP layer: API, page, and the checks that come before both."""
