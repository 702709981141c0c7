"""Recipes for language models, which answer in several responses."""
