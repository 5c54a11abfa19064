"""What the detector writes, as it comes: followed by one thread, kept within bounds, handed to whoever listens."""
