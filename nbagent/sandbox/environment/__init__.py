"""What a kernel without an image is made of: packages, and the Python that runs them."""
