// Package v4 has the arguments of the component that renders a Helm chart.
package v4

import (
	"context"
	"reflect"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// RepositoryOpts says where a chart is fetched from, and as whom.
type RepositoryOpts struct {
	CaFile   pulumi.AssetOrArchive `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchive `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchive `pulumi:"keyFile"`
	Password *string               `pulumi:"password"`
	Repo     *string               `pulumi:"repo"`
	Username *string               `pulumi:"username"`
}

// RepositoryOptsInput is RepositoryOpts, known or not yet.
type RepositoryOptsInput interface {
	pulumi.Input

	ToRepositoryOptsOutput() RepositoryOptsOutput
	ToRepositoryOptsOutputWithContext(context.Context) RepositoryOptsOutput
}

// RepositoryOptsArgs are the inputs of RepositoryOpts.
type RepositoryOptsArgs struct {
	CaFile   pulumi.AssetOrArchiveInput `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchiveInput `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchiveInput `pulumi:"keyFile"`
	Password pulumi.StringPtrInput      `pulumi:"password"`
	Repo     pulumi.StringPtrInput      `pulumi:"repo"`
	Username pulumi.StringPtrInput      `pulumi:"username"`
}

// ElementType is the type of the inputs once they are known.
func (RepositoryOptsArgs) ElementType() reflect.Type {
	return reflect.TypeFor[RepositoryOpts]()
}

// ToRepositoryOptsOutput waits for the inputs.
func (a RepositoryOptsArgs) ToRepositoryOptsOutput() RepositoryOptsOutput {
	return a.ToRepositoryOptsOutputWithContext(context.Background())
}

// ToRepositoryOptsOutputWithContext waits for the inputs.
func (a RepositoryOptsArgs) ToRepositoryOptsOutputWithContext(ctx context.Context) RepositoryOptsOutput {
	return pulumi.ToOutputWithContext(ctx, a).(RepositoryOptsOutput)
}

// RepositoryOptsOutput is RepositoryOpts, not yet known.
type RepositoryOptsOutput struct{ *pulumi.OutputState }

// ElementType is the type of the output once it is known.
func (RepositoryOptsOutput) ElementType() reflect.Type {
	return reflect.TypeFor[RepositoryOpts]()
}

// ToRepositoryOptsOutput is the output itself.
func (o RepositoryOptsOutput) ToRepositoryOptsOutput() RepositoryOptsOutput { return o }

// ToRepositoryOptsOutputWithContext is the output itself.
func (o RepositoryOptsOutput) ToRepositoryOptsOutputWithContext(context.Context) RepositoryOptsOutput {
	return o
}

// PostRenderer is a program that what a chart rendered is passed through.
type PostRenderer struct {
	Args    []string `pulumi:"args"`
	Command string   `pulumi:"command"`
}

// PostRendererInput is PostRenderer, known or not yet.
type PostRendererInput interface {
	pulumi.Input

	ToPostRendererOutput() PostRendererOutput
	ToPostRendererOutputWithContext(context.Context) PostRendererOutput
}

// PostRendererArgs are the inputs of PostRenderer.
type PostRendererArgs struct {
	Args    pulumi.StringArrayInput `pulumi:"args"`
	Command pulumi.StringInput      `pulumi:"command"`
}

// ElementType is the type of the inputs once they are known.
func (PostRendererArgs) ElementType() reflect.Type {
	return reflect.TypeFor[PostRenderer]()
}

// ToPostRendererOutput waits for the inputs.
func (a PostRendererArgs) ToPostRendererOutput() PostRendererOutput {
	return a.ToPostRendererOutputWithContext(context.Background())
}

// ToPostRendererOutputWithContext waits for the inputs.
func (a PostRendererArgs) ToPostRendererOutputWithContext(ctx context.Context) PostRendererOutput {
	return pulumi.ToOutputWithContext(ctx, a).(PostRendererOutput)
}

// PostRendererOutput is PostRenderer, not yet known.
type PostRendererOutput struct{ *pulumi.OutputState }

// ElementType is the type of the output once it is known.
func (PostRendererOutput) ElementType() reflect.Type {
	return reflect.TypeFor[PostRenderer]()
}

// ToPostRendererOutput is the output itself.
func (o PostRendererOutput) ToPostRendererOutput() PostRendererOutput { return o }

// ToPostRendererOutputWithContext is the output itself.
func (o PostRendererOutput) ToPostRendererOutputWithContext(context.Context) PostRendererOutput {
	return o
}

func init() {
	pulumi.RegisterInputType(reflect.TypeFor[RepositoryOptsInput](), RepositoryOptsArgs{})
	pulumi.RegisterInputType(reflect.TypeFor[PostRendererInput](), PostRendererArgs{})
	pulumi.RegisterOutputType(RepositoryOptsOutput{})
	pulumi.RegisterOutputType(PostRendererOutput{})
}
