"""A Ray cluster of two nodes on this machine, and the order in which Ray wants things."""

import os

# Ray reads this when it is imported, and its processes when they start: 127.0.0.1 is then their address.
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0", OMP_NUM_THREADS="1")

from collections.abc import Iterator

import pytest
import ray
from ray.cluster_utils import Cluster

NODE = {
    "num_cpus": 1,
    "object_store_memory": 100_000_000,
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one CPU each; nobody is connected."""
    made = Cluster(initialize_head=True, head_node_args=NODE)
    made.add_node(**NODE)
    yield made
    ray.shutdown()
    made.shutdown()
