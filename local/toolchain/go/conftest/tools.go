//go:build tools

// Conftest, pinned once: this file makes go.mod keep it.
package tools

import (
	_ "github.com/open-policy-agent/conftest"
)
