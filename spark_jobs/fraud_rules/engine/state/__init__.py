"""The state of a key group: a durable log of chunks, and the memory-mapped view that the kernel works on."""
