"""Generated pages of the documentation, from the classes in METHODS and the records of `kinrank bench`."""
