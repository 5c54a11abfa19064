"""Whether a rule is admitted: the state, the CPU time and the mappings that all rules together need."""
