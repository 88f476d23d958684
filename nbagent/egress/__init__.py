"""What may go out: a proxy on the host for a sandbox that has no route.

listener  takes connections from the sandbox
proxy     one connection: reads its request, has it decided, relays it
gate      decides: by the list of hosts, else by a person's answer
hosts     rules, names and addresses
dial      looks a name up once, checks the addresses, and connects
tls       the server's name in a TLS connection
relay     passes bytes on, and counts them
"""
