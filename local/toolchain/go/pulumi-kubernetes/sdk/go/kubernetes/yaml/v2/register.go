// Package v2 registers the objects of a manifest.
package v2

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// object is an object of any kind. The components hand out references to objects, and read none
// of their outputs; those stay with the engine.
type object struct {
	pulumi.CustomResourceState
}

// RegisterResource registers an object of a kind by the token that the provider gives that kind.
func RegisterResource(
	ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input, opts ...pulumi.ResourceOption,
) (pulumi.CustomResource, error) {
	if apiVersion == "v1" {
		apiVersion = "core/v1"
	}
	var made object
	token := "kubernetes:" + apiVersion + ":" + kind
	if err := ctx.RegisterResource(token, name, props, &made, opts...); err != nil {
		return nil, err
	}
	return &made, nil
}
