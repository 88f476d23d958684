"""One engine a file, and what they share; the floors above see the contract in `base` only."""
