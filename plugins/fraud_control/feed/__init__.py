"""The live outputs of the detector: one thread reads them, memory keeps the newest ones, a hub sends them to pages."""
