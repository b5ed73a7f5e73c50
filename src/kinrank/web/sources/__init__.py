"""What a command was given -> Settings, with a prepared gallery on disk."""
