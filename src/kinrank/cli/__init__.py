"""Words on a command line -> one call of the library -> text or JSON. Thin: no arithmetic lives here."""
