"""Pictures in folders and zips from untrusted sources: found, read and decoded within limits."""
