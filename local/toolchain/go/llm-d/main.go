// Command llm-d-epp is llm-d's endpoint picker with what routes prefill and decode: the
// module's filters, profile handlers and header handler, on the runner they were released
// with. Upstream's own main also registers scorers that read engines' KV events; those need
// C libraries and an embedded Python, and the runner brings scorers for queue, KV use and
// prefix without them.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"

	"github.com/llm-d/llm-d-inference-scheduler/pkg/metrics"
	"github.com/llm-d/llm-d-inference-scheduler/pkg/plugins/filter"
	prerequest "github.com/llm-d/llm-d-inference-scheduler/pkg/plugins/pre-request"
	"github.com/llm-d/llm-d-inference-scheduler/pkg/plugins/profile"
)

func main() {
	for name, factory := range map[string]plugins.FactoryFunc{
		filter.ByLabelType:                     filter.ByLabelFactory,
		filter.ByLabelSelectorType:             filter.ByLabelSelectorFactory,
		filter.DecodeRoleType:                  filter.DecodeRoleFactory,
		filter.PrefillRoleType:                 filter.PrefillRoleFactory,
		prerequest.PrefillHeaderHandlerType:    prerequest.PrefillHeaderHandlerFactory,
		profile.DataParallelProfileHandlerType: profile.DataParallelProfileHandlerFactory,
		profile.PdProfileHandlerType:           profile.PdProfileHandlerFactory,
	} {
		plugins.Register(name, factory)
	}
	picker := runner.NewRunner().WithCustomCollectors(metrics.GetCollectors()...)
	if err := picker.Run(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
