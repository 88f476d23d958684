"""One engine a file, and what each is made of."""
