"""Environment files, templates, and `delivery.yaml`."""
