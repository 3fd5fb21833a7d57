"""client.py urllib|requests|httpx|aiohttp BASE CONTROL DIR CASE...: see clients_test.go for what each case does and prints."""
import hashlib
import socket
import sys
import urllib.error
import urllib.request

library, base, control, folder = sys.argv[1:5]
OWN = ("Authorization", "Bearer the-clients-own")

made = 0
connect = socket.socket.connect


def counted(self, address):
    global made
    made += 1
    return connect(self, address)


socket.socket.connect = counted

# send(method, path, headers, body) returns status, header pairs and an
# iterator over the body's bytes as they come, not decoded.
if library == "urllib":

    def send(method, path, headers=(), body=None):
        request = urllib.request.Request(base + path, data=body, headers=dict(headers), method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as refused:
            answer = refused
        # A line at a time, because read(n) waits for n bytes.
        return answer.status, answer.headers.items(), iter(answer.readline, b"")

elif library == "requests":
    import requests

    session = requests.Session()

    def send(method, path, headers=(), body=None):
        answer = session.request(method, base + path, headers=dict(headers), data=body, stream=True, timeout=60)
        return answer.status_code, answer.raw.headers.items(), answer.raw.stream(None, decode_content=False)

elif library == "httpx":
    import httpx

    client = httpx.Client(timeout=60)

    def send(method, path, headers=(), body=None):
        request = client.build_request(method, base + path, headers=dict(headers), content=body)
        answer = client.send(request, stream=True)
        return answer.status_code, answer.headers.multi_items(), answer.iter_raw()

elif library == "aiohttp":
    import asyncio
    import aiohttp

    loop = asyncio.new_event_loop()

    async def opened():
        return aiohttp.ClientSession(trust_env=True, auto_decompress=False)

    session = loop.run_until_complete(opened())

    def send(method, path, headers=(), body=None):
        answer = loop.run_until_complete(session.request(method, base + path, headers=dict(headers), data=body))

        def parts():
            while part := loop.run_until_complete(answer.content.readany()):
                yield part
            answer.release()

        return answer.status, answer.headers.items(), parts()

else:
    sys.exit("no such library: " + library)


def call(*request):
    status, headers, body = send(*request)
    print("status", status)
    for name, value in headers:
        print("header", name.lower(), value)
    digest, size = hashlib.sha256(), 0
    for part in body:
        digest.update(part)
        size += len(part)
    print("size", size)
    print("sha256", digest.hexdigest())


def reuse():
    before, ok = made, 0
    for n in range(1, 101):
        status, _, body = send("GET", f"/items/{n}/notes/n")
        for _ in body:
            pass
        ok += status == 200
    print("ok", ok)
    print("connections", made - before)


def stream():
    _, _, body = send("GET", "/stream", [("Accept", "text/event-stream")])
    text = b""
    for part in body:
        text += part
        while b"\n" in text:
            line, text = text.split(b"\n", 1)
            if line.startswith(b"data: "):
                n = line[6:].decode()
                print("event", n)
                urllib.request.urlopen(f"{control}/ack?n={n}", timeout=30).read()


form = "application/x-www-form-urlencoded"
cases = {
    "get": lambda: call("GET", "/items/42/notes/a%20b?tag=x&tag=y&q=a+b", [OWN, ("Accept", "application/json"), ("X-Trace", "t-1"), ("Accept-Encoding", "gzip")]),
    "hop": lambda: call("GET", "/items/7/notes/hop", [("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5")]),
    "json": lambda: call("POST", "/items", [OWN, ("Content-Type", "application/json")], '{"name":"é","n":1.0}'.encode()),
    "form": lambda: call("POST", "/forms", [("Content-Type", form)], b"a=1&b=two+words&a=3"),
    "missing": lambda: call("GET", "/status/404"),
    "broken": lambda: call("GET", "/status/500"),
    "reply": lambda: call("GET", "/reply", [("Accept-Encoding", "gzip")]),
    "down": lambda: call("GET", "/blob"),
    "up": lambda: call("POST", "/blob", [("Content-Type", "application/octet-stream")], open(folder + "/up.bin", "rb").read()),
    "reuse": reuse,
    "stream": stream,
}
for case in sys.argv[5:]:
    print("==", case)
    cases[case]()
    sys.stdout.flush()
if library == "aiohttp":
    loop.run_until_complete(session.close())
