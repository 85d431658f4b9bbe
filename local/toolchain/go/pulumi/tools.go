//go:build tools

// The Pulumi CLI, pinned once: this file makes go.mod keep the CLI.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
