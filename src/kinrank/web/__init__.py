"""`kinrank serve`: a prepared gallery -> a page that shows why an item moved, and an HTTP service."""
