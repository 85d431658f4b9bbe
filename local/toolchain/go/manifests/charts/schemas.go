package main

import (
	"bytes"
	"sync"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas has each chart's schema compiled once.
type schemas struct {
	compiled sync.Map // text: func() *jsonschema.Schema
}

// hold says whether the values satisfy the schemas of the chart and of those below it. False where
// that cannot be told: a schema that does not compile by itself, values that no schema can be asked of.
func (s *schemas) hold(ours *chart.Chart, laid map[string]any) bool {
	if ours.Schema != nil && !s.satisfied(string(ours.Schema), laid) {
		return false
	}
	for _, below := range ours.Dependencies() {
		its, ok := laid[below.Name()].(map[string]any)
		if !ok && laid[below.Name()] != nil || ok && !s.hold(below, its) {
			return false
		}
	}
	return true
}

func (s *schemas) satisfied(text string, laid map[string]any) (held bool) {
	defer func() {
		if recover() != nil {
			held = false
		}
	}()
	compile, _ := s.compiled.LoadOrStore(text, sync.OnceValue(func() *jsonschema.Schema {
		return compiled(text)
	}))
	schema := compile.(func() *jsonschema.Schema)()
	return schema != nil && schema.Validate(laid) == nil
}

// compiled is nil where the schema is none, or refers to others: those are looked up by Helm.
func compiled(text string) *jsonschema.Schema {
	const name = "file:///values.schema.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
	if err != nil {
		return nil
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource(name, document); err != nil {
		return nil
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return nil
	}
	return schema
}
