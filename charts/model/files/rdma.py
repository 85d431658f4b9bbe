"""Fail unless RDMA can work in this pod: its devices are there, memory may be locked for them."""

import pathlib
import resource
import sys

problems = []
devices = pathlib.Path("/dev/infiniband")
if not devices.is_dir() or not any(devices.iterdir()):
    problems.append("no device in /dev/infiniband: the device plugin gave none")
limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
# Below this not even the queues of one device fit; nodes for RDMA set it to unlimited.
if limit != resource.RLIM_INFINITY and limit < 2**30:
    problems.append(
        f"only {limit} bytes of memory may be locked: set LimitMEMLOCK=infinity for the node's "
        "containerd (the capability IPC_LOCK does not help a user who is not root)"
    )
for problem in problems:
    print(f"RDMA does not work in this pod: {problem}", file=sys.stderr)
sys.exit(1 if problems else 0)
