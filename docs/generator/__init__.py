"""Classes in METHODS and records of `kinrank bench` -> the generated pages of the documentation."""
