"""What people report in public to break when they serve models on Kubernetes, by number.

The numbers stay; those that are missing are about other rooms (scaling, delivery).
"""

from __future__ import annotations

from typing import Final

NOTES: Final = {
    1: "a rollout waits for the GPU that the old pod holds",
    2: "a start takes minutes, and is killed before it is done",
    3: "deadlines that do not know of each other",
    4: "a busy engine fails its liveness probe",
    5: "probes that succeed whatever happens",
    6: "gateways cut long streams",
    7: "answers are lost when a pod stops",
    8: "a shell swallows SIGTERM",
    9: "a Service's name becomes the engine's setting",
    10: "ranks that are not the GPUs",
    11: "a context for which there is no room",
    12: "arithmetic of memory that is wrong for the model",
    13: "ranks without shared memory",
    14: "claims that one node keeps",
    15: "every replica downloads, and not always the same",
    18: "metrics whose names and ranges are not what is asked for",
    20: "NetworkPolicies that forget who must reach whom",
    21: "secrets that are written down",
    31: "big integers become 1e+06",
    32: "null means one thing to Helm 3 and another to Helm 4",
    34: "misspelt values are ignored",
    35: "arguments that templates bend",
    39: "references to what is not there",
    41: "one kind of two API groups",
    43: "a picker that is wired to nothing, or without TLS",
    45: "bodies that are refused for their length",
    46: "a side channel that peers cannot reach",
    47: "prefill and decode of two versions",
    49: "a dead worker that nobody sees",
    50: "rollouts of groups in shares and halves",
    51: "a queue that does not count what pods ask for",
    52: "serving that batch, a rollout or a webhook pushes out",
    53: "RDMA that falls back to TCP",
    55: "EFA's traffic stopped by an open security group",
    56: "EFA nodes apart, or with a plugin that stays away from them",
    58: "two owners of one part of a node",
    59: "images and nodes that change by themselves",
    60: "GPUs that are misspelt, halved or helped to",
    61: "a number of nodes that fights the autoscaler",
    62: "nodes taken away while they answer",
    64: "previews that want the kinds installed",
    65: "waiting for what never becomes ready",
    67: "hardened images without a place to write",
    68: "ports that run code for whoever reaches them",
}
