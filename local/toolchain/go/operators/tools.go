//go:build tools

// The operators and node programs of the local cluster, pinned once: this file
// makes go.mod keep them. Sharing one go.mod lets them share compiled packages.
package tools

import (
	_ "github.com/rancher/local-path-provisioner"
	_ "sigs.k8s.io/gateway-api-inference-extension/cmd/bbr"
	_ "sigs.k8s.io/gateway-api-inference-extension/cmd/epp"
	_ "sigs.k8s.io/gateway-api/apis/v1" // its CRDs are installed from the module
	_ "sigs.k8s.io/kueue/cmd/kueue"
	_ "sigs.k8s.io/kwok/cmd/kwok"
	_ "sigs.k8s.io/lws/cmd"
)
