"""What outlives the process: everything the cloud was told, in one folder."""
