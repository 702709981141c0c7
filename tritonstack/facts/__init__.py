"""AWS and NVIDIA facts: hardware, drivers, regions, releases, images."""
