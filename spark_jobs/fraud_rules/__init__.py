"""A fraud-rules engine: rules that change at run time, over exact per-event sliding windows."""
