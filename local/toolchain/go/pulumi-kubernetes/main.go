// Command pulumi-resource-kubernetes serves the Kubernetes provider of the
// pinned module. Its schema is a file of that module, too large to keep in this
// repository, so the build puts it beside the program.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pulumi-resource-kubernetes: cannot find its own path: %v\n", err)
		os.Exit(1)
	}
	schema, err := os.ReadFile(filepath.Join(filepath.Dir(self), "schema.json"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "pulumi-resource-kubernetes: schema.json must lie beside it: %v\n", err)
		os.Exit(1)
	}
	provider.Serve("kubernetes", version.Version, schema, []byte("{}"))
}
