"""The workers' side of the stream: the two stages, and how rows travel between them."""
