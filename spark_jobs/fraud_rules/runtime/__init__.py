"""What every layer needs from its host: processes, files, secrets, metrics. Imports only the product's errors."""
