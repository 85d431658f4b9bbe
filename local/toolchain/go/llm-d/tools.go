//go:build tools

// The sidecar comes from the picker's module: this file makes go.mod keep what it needs.
package main

import _ "github.com/llm-d/llm-d-inference-scheduler/cmd/pd-sidecar"
