//go:build tools

// Helm and kubeconform, pinned once: this file makes go.mod keep them.
package tools

import (
	_ "github.com/yannh/kubeconform/cmd/kubeconform"
	_ "helm.sh/helm/v4/cmd/helm"
)
