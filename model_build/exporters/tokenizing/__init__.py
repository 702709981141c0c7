"""Tokenizers of text models, in the framework and as they are served."""
