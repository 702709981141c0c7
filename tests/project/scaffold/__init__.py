"""Tests of new files and edits."""
