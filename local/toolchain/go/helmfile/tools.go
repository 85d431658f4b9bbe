//go:build tools

// Helmfile, pinned once: this file makes go.mod keep it.
package tools

import (
	_ "github.com/helmfile/helmfile"
)
