"""Who a sandbox belongs to, until when, and who sweeps up what nobody owns any more."""
