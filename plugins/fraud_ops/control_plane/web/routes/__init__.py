"""The routes, a module for each thing they are about."""
