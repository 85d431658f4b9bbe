"""Return once the URL given as the only argument answers 200; say every minute what is missing."""

import sys
import time
import urllib.request

url = sys.argv[1]
tries = 0
while True:
    try:
        with urllib.request.urlopen(url, timeout=5):
            break
    except OSError as error:
        if tries % 30 == 0:
            print(f"waiting for {url}: {error}", flush=True)
    tries += 1
    time.sleep(2)
print(f"{url} answers", flush=True)
