// What the provider wants of Pulumi's Go SDK for Kubernetes: one way to register an object of any
// kind. The SDK has a struct for every kind, and compiling those takes more than the rest together.
module github.com/pulumi/pulumi-kubernetes/sdk/v4

go 1.26.0

require github.com/pulumi/pulumi/sdk/v3 v3.215.0

