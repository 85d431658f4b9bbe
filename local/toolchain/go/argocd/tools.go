//go:build tools

// Argo CD, pinned once: this file makes go.mod keep it.
package tools

import _ "github.com/argoproj/argo-cd/v3/cmd"
