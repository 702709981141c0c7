"""The persistent state of the cloud, in one folder."""
