"""The models of the API: JSON in camelCase, times in epoch ms, unknown members of requests refused."""
