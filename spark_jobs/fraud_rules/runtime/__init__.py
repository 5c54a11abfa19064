"""What every process needs from its host: clock, files, locks, processes, retries and caches."""
