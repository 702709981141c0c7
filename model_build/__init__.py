"""From a model's file to a verified, reproducible artifact, on a laptop and in a build job alike.

fetch the source -> export -> compare with the framework -> lay the Triton repository -> pack -> serve the
very archive with a real Triton and compare again -> keep it, its manifest last.

Nothing is imported here: who publishes artifacts or reads their manifests needs none of what builds them.
"""
