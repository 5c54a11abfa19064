"""What goes over the wire, as models: JSON in camelCase, times in epoch ms, unknown members of requests refused."""
