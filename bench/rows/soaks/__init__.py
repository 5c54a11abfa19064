"""Long runs: whether memory, files and the time of a step stay flat."""
