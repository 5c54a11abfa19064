"""Rules: records of the rule log, rule files, the one-line text form, and the filter language."""
