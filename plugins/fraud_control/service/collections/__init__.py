"""Lists of values: their contents, the changes that users and other writers make, and values that expire."""
