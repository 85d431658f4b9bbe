-- Read in sigs.k8s.io/kueue v0.19.2: apis/kueue/v1beta2/localqueue_types.go and
-- pkg/controller/core/localqueue_controller.go.
return queue(obj, "its cluster queue")
