"""A gallery and a question -> before and after, the chain, the map: what the page draws."""
