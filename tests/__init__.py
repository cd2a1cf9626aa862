"""Tests. On a shared host an example may take long once: no test of properties fails for that."""

from hypothesis import settings

settings.register_profile("benchbook", deadline=None)
settings.load_profile("benchbook")
