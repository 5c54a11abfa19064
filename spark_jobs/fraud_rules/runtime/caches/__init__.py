"""Files that can be made again: folders of the user's cache, and class archives of JVMs."""
