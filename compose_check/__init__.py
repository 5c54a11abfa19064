"""`make compose-check`: starts docker-compose.yml here, kills a container of each service, and removes everything.

The check needs no image registry: it builds stand-ins for the base images from Debian's packages and the jars in lib/.
"""
