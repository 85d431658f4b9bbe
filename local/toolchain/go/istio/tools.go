//go:build tools

// The programs of Istio, pinned once: this file makes go.mod keep them.
package tools

import (
	_ "istio.io/istio/pilot/cmd/pilot-agent"
	_ "istio.io/istio/pilot/cmd/pilot-discovery"
)
