//go:build tools

// Helm 3, pinned once: this file makes go.mod keep it.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
