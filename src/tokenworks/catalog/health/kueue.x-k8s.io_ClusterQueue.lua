-- Read in sigs.k8s.io/kueue v0.19.2: apis/kueue/v1beta2/clusterqueue_types.go and
-- pkg/controller/core/clusterqueue_controller.go. Waiting workloads are no fault of the queue.
return queue(obj, "it")
