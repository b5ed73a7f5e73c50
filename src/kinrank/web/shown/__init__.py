"""Files of names, labels, texts, truth and pictures -> what the page shows of an item."""
