"""Pictures and texts -> vectors, thin over libraries that people already use; nothing here is imported by the core."""
