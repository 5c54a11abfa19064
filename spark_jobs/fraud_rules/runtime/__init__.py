"""Host services for every layer: processes, files, secrets, metrics. Imports only the product's errors."""
