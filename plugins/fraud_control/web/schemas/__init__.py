"""The models of requests and responses: JSON in camelCase, times in epoch ms. Requests refuse unknown members."""
