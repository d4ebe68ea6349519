"""Two machines of Ray on this one, in a process of its own: it forks.

It prints the address, loses the second machine when told so by a line, and
ends with its input.
"""

import sys

from ray.cluster_utils import Cluster

if __name__ == "__main__":
  cluster = Cluster(
    initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1}
  )
  try:
    lost = cluster.add_node(num_cpus=1, num_gpus=1)
    print("at", cluster.address, flush=True)
    if sys.stdin.readline():
      cluster.remove_node(lost, allow_graceful=False)
    sys.stdin.read()
  finally:
    cluster.shutdown()
