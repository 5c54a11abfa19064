"""The life of governed items: what rules and lists have in common."""
