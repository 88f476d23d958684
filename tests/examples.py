"""Code of the examples that nbagent was begun with, for the tests that play them in more than one way."""

from __future__ import annotations

FIBONACCI = """\
def fibonacci(n):
    if n <= 1:
        return n
    return fibonacci(n-1) + fibonacci(n-2)

print(fibonacci(10))
"""
READ_USERS = """\
import json
with open('users.json') as f:
    data = json.load(f)
for user in data:
    print(user['username'])
"""
SAMPLE_USERS = """\
import json

# Create sample data since file doesn't exist in sandbox
sample_data = [
    {"username": "alice", "id": 1},
    {"username": "bob", "id": 2},
    {"username": "charlie", "id": 3}
]

for user in sample_data:
    print(user['username'])
"""
