"""Commands about labels of payments."""
