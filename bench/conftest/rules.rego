# Six of our rules, as they would be written for conftest: `make bench` gives both the same objects.
package main

import rego.v1

pods contains pod if {
	input.kind in {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}
	pod := input.spec.template.spec
}

pods contains pod if {
	input.kind == "LeaderWorkerSet"
	some part in ["leaderTemplate", "workerTemplate"]
	pod := input.spec.leaderWorkerTemplate[part].spec
}

engine(container) if regex.match(`(^|/)[^/]*(vllm|sglang|tensorrt-llm|tensorrt_llm|llama\.cpp)[^/]*$`, split(container.image, "@")[0])

silent(container) if regex.match(`--headless|ray +start|--node-rank`, concat(" ", array.concat(object.get(container, "command", []), object.get(container, "args", []))))

serving contains container if {
	some pod in pods
	some container in pod.containers
	engine(container)
	not silent(container)
}

deny contains msg if {
	some container in serving
	some probe in ["startupProbe", "readinessProbe", "livenessProbe"]
	not container[probe]
	msg := sprintf("%s %s: container %s has no %s", [input.kind, input.metadata.name, container.name, probe])
}

deny contains msg if {
	some container in serving
	not container.resources.limits["nvidia.com/gpu"]
	not container.resources.claims
	msg := sprintf("%s %s: container %s has no GPU limit", [input.kind, input.metadata.name, container.name])
}

deny contains msg if {
	some pod in pods
	some list in ["containers", "initContainers"]
	some container in pod[list]
	not contains(container.image, "@sha256:")
	msg := sprintf("%s %s: container %s has an image without digest", [input.kind, input.metadata.name, container.name])
}

deny contains msg if {
	some pod in pods
	some container in pod.containers
	engine(container)
	object.get(pod, "enableServiceLinks", true) != false
	msg := sprintf("%s %s has service links on", [input.kind, input.metadata.name])
}
