"""Files into a sandbox and out of it, over the kernel's own connection."""
