"""The bill of versions at work: listing it, resolving digests, checking environments against it.

The bill itself is data: `catalog/versions.yaml`, the engines' files, `local/toolchain/pins.yaml`
and go.mod files, and what an environment's documents name themselves.
"""
