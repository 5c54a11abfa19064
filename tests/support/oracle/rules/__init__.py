"""Rules as the oracle reads them: records, the rule log, and what a rule says about windows, keys and rows."""
