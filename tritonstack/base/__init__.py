"""The vocabulary of the project: models, endpoints, environments, locks, manifests, hardware, releases.

Everything here is typed, frozen and pure: it reads files, checks them, and knows no cloud.
"""
