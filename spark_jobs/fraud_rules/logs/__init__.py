"""The product's topics as typed logs: the rule log, progress, quarantine, and recordings of evaluated batches."""
