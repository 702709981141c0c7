"""Install and check what a project needs beside the Python packages."""
