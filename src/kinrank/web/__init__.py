"""HTTP service and page of `kinrank serve`."""
