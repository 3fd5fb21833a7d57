"""plain.py LIBRARY URL: reads URL with a library that is told of no proxy, and prints status and body."""
import sys

library, url = sys.argv[1:]
if library == "urllib":
    import urllib.request

    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60)
    print(answer.status, answer.read().decode())
elif library == "urllib3":
    import os
    import urllib3

    answer = urllib3.PoolManager(ca_certs=os.environ["SSL_CERT_FILE"]).request("GET", url)
    print(answer.status, answer.data.decode())
elif library == "aiohttp":
    import asyncio
    import aiohttp

    async def read():
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            print(answer.status, await answer.text())

    asyncio.run(read())
else:
    sys.exit("no such library: " + library)
