//go:build tools

// Actionlint, pinned once: this file makes go.mod keep it.
package tools

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
