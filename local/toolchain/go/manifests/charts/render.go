package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	valuesfile "helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// library has each chart that was asked for, read once.
type library struct {
	charts  sync.Map // path: func() (*chart.Chart, error)
	schemas schemas
}

func newLibrary() *library { return &library{} }

func (l *library) chart(folder string) (*chart.Chart, error) {
	load, _ := l.charts.LoadOrStore(folder, sync.OnceValues(func() (*chart.Chart, error) {
		return load(folder)
	}))
	found, err := load.(func() (*chart.Chart, error))()
	if err != nil {
		return nil, err
	}
	return copied(found), nil
}

// load reads a chart, and refuses what Helm would not install.
func load(folder string) (*chart.Chart, error) {
	found, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	ours, ok := found.(*chart.Chart)
	if !ok {
		return nil, errors.New("invalid chart apiVersion")
	}
	if kind := ours.Metadata.Type; kind != "" && kind != "application" {
		return nil, fmt.Errorf("%s charts are not installable", kind)
	}
	var missing []string
	for _, wanted := range ours.Metadata.Dependencies {
		named := func(there *chart.Chart) bool { return there.Name() == wanted.Name }
		if !slices.ContainsFunc(ours.Dependencies(), named) {
			missing = append(missing, wanted.Name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf(
			"found in Chart.yaml, but missing in charts/ directory: %s", strings.Join(missing, ", "))
	}
	return ours, nil
}

// copied is a chart of its own for one rendering, which disables dependencies and lays their values
// into it. Files are shared: nothing writes to them.
func copied(from *chart.Chart) *chart.Chart {
	to, metadata := *from, *from.Metadata
	metadata.Dependencies = nil
	for _, dependency := range from.Metadata.Dependencies {
		own := *dependency
		metadata.Dependencies = append(metadata.Dependencies, &own)
	}
	to.Metadata = &metadata
	if from.Values != nil {
		to.Values = deep(from.Values).(map[string]any)
	}
	to.SetDependencies()
	for _, below := range from.Dependencies() {
		to.AddDependency(copied(below))
	}
	return &to
}

func deep(value any) any {
	switch value := value.(type) {
	case map[string]any:
		to := make(map[string]any, len(value))
		for key, below := range value {
			to[key] = deep(below)
		}
		return to
	case []any:
		to := make([]any, len(value))
		for place, below := range value {
			to[place] = deep(below)
		}
		return to
	default:
		return value
	}
}

// render is what `helm template --skip-tests` prints: manifests in the order of installation, then
// hooks.
func (l *library) render(wanted request) ([]string, error) {
	given, err := valuesfile.LoadValues(bytes.NewReader(wanted.Values))
	if err != nil {
		return nil, fmt.Errorf("failed to parse values: %w", err)
	}
	ours, err := l.chart(wanted.Chart)
	if err != nil {
		return nil, err
	}
	top, err := l.values(ours, given, wanted)
	if err != nil {
		return nil, err
	}
	var renderer engine.Engine
	files, err := renderer.Render(ours, top)
	if err != nil {
		return nil, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, manifest := range manifests {
		all = append(all, manifest.Content)
	}
	for _, hook := range hooks {
		if !slices.Contains(hook.Events, release.HookTest) {
			all = append(all, hook.Manifest)
		}
	}
	return all, nil
}

// values is what templates see: the given values laid onto the chart's, once the schemas hold.
func (l *library) values(
	ours *chart.Chart, given map[string]any, wanted request,
) (common.Values, error) {
	kube, err := common.ParseKubeVersion(wanted.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("invalid kube version '%s': %w", wanted.KubeVersion, err)
	}
	if err := chartutil.ValidateReleaseName(wanted.Name); err != nil {
		return nil, fmt.Errorf("release name check failed: release name %q: %w", wanted.Name, err)
	}
	if err := chartutil.ProcessDependencies(ours, given); err != nil {
		return nil, fmt.Errorf("chart dependencies processing failed: %w", err)
	}
	able := common.DefaultCapabilities.Copy()
	able.KubeVersion = *kube
	options := common.ReleaseOptions{
		Name: wanted.Name, Namespace: wanted.Namespace, Revision: 1, IsInstall: true,
	}
	top, err := util.ToRenderValuesWithSchemaValidation(ours, given, options, able, true)
	if err != nil {
		return nil, err
	}
	// Helm compiles the schemas anew each time. What does not pass here is judged, and said, by Helm.
	if laid, ok := top["Values"].(common.Values); !ok || !l.schemas.hold(ours, laid) {
		top, err = util.ToRenderValuesWithSchemaValidation(ours, given, options, able, false)
		if err != nil {
			return nil, ordered(err)
		}
	}
	if span := ours.Metadata.KubeVersion; span != "" &&
		!chartutil.IsCompatibleRange(span, able.KubeVersion.String()) {
		return nil, fmt.Errorf(
			"chart requires kubeVersion: %s which is incompatible with Kubernetes %s",
			span, able.KubeVersion.Version)
	}
	return top, nil
}
