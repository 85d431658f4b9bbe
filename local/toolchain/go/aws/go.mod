// Files of projects for AWS, pinned once: charts and CRDs are read from them, nothing is built.
module tokenworks.dev/local/toolchain/aws

go 1.26.0

require (
	github.com/aws/eks-charts v0.0.243-0.20260821194545-743f98a89b5b
	github.com/aws/karpenter-provider-aws v1.14.1
	sigs.k8s.io/dra-driver-nvidia-gpu v0.5.0
	sigs.k8s.io/node-feature-discovery v0.19.0
)
