"""The engines `docker`, `bubblewrap` and `local`, each with the modules that only it uses."""
