"""The product's own topics as typed logs: the rule log, progress, quarantine, recordings of what was judged."""
