"""Requests -> answers: the API, the page, and what is refused before either sees it."""
