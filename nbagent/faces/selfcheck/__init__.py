"""The attacks that a sandbox must withstand, tried on the person's own machine: `nbagent doctor --self-check`."""
