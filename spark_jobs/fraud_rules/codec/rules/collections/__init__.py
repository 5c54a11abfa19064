"""Records and files of lists and maps: the texts that people and programs write, and the changes that they make."""
