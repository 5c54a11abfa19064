"""The batch side: the archive, re-evaluated days and what-if. See docs/data.md."""
