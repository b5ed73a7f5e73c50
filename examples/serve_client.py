"""Serve a prepared gallery; search, explain and change it from another program."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kinrank as kr
from kinrank.testing import toy

data = toy("turntable")
names = [f"object_{label}_view_{number}" for number, label in enumerate(data.gallery_labels)]
query, wanted = data.queries[1:2], f"object_{data.query_labels[1]}_"

with tempfile.TemporaryDirectory() as folder:
    gallery = Path(folder) / "views.manifold"
    kr.Manifold.build(data.gallery, ids=names).save(gallery)
    command = [sys.executable, "-m", "kinrank.cli", "serve", str(gallery), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            address = re.findall(r"http://\S+", service.stdout.readline())[0]
            with kr.Client(address) as client:
                found = client.search(query, k=10).ids[0].tolist()
                print(f"{sum(name.startswith(wanted) for name in found)} of the first 10 are right after kinrank")
                print(client.explain(query[0], found[-1]))
                receipt = client.add(query, ids=[wanted + "new"])
                print(f"{receipt.items} items now; nearest is {client.search(query, k=1).ids[0, 0]}")
        finally:
            service.terminate()
