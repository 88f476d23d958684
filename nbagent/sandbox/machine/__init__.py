"""What all engines share whose sandboxes run on this machine."""
