"""What `test_ray.py` runs in namespaces of their own: a cluster that loses nodes and its driver."""

import json
import signal
import subprocess
from collections import Counter
from contextlib import closing

import pytest

from outrider.testing import answer
from ray_cluster import Cluster, environment, serving, wait_for_children, wait_until

ITEMS = 300


@pytest.fixture
def cluster(tmp_path_factory):
    with closing(Cluster(tmp_path_factory.mktemp("c"), 3)) as cluster:
        yield cluster


def recorded(cluster):
    """Return how often each task's end is in the journal."""
    found = Counter()
    path = cluster.project / "j"
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        if line.endswith(b"\n") and "end" in (data := json.loads(line)):
            found[data["row"]["task"]] += 1
    return found


@pytest.mark.timeout(900)
def test_300_items_outlive_a_raylet_a_link_and_their_driver(cluster):
    (cluster.project / "items").write_text("".join(f"Item {n}\n" for n in range(ITEMS)))
    words = ["map", "explorer", "items", "--on", "ray", "--journal", "j"]
    with serving(lambda _: answer("Done.", delay=1)) as model:
        words += ["--model", model.model]
        for node in (1, 2, 3):
            cluster.start_node(node, environment(model))
        told = cluster.place / "told"
        with open(told, "w") as file:
            driver = cluster.start(*words, stdout=subprocess.DEVNULL, stderr=file)
        wait_until(lambda: len(recorded(cluster)) >= 30, "30 results")
        cluster.kill_raylet(2)
        wait_until(lambda: len(recorded(cluster)) >= 70, "70 results")
        cluster.cut(3)
        wait_until(lambda: "10.77.0.3" in told.read_text(), "word of the node that was cut off")
        done = len(recorded(cluster))
        wait_until(lambda: len(recorded(cluster)) >= min(ITEMS - 20, done + 30), "30 more")
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        wait_for_children()
        before = recorded(cluster)
        asked = Counter(request.last_user_text for request in model.requests)
        ended = cluster.run(*words)
        asked_again = Counter(request.last_user_text for request in model.requests)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, ended.stderr
    assert len(rows) == len({row["id"] for row in rows}) == ITEMS
    assert {row["outcome"] for row in rows} == {"completed"}
    assert recorded(cluster) == {f"Item {n}": 1 for n in range(ITEMS)}
    assert not [task for task in before if asked_again[task] != asked[task]]
    assert "10.77.0.2" in told.read_text()
    wait_for_children()
