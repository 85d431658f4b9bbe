// Package kubernetes has what the provider's component resources (ConfigFile, ConfigGroup, Chart)
// register the objects of a manifest with.
package kubernetes

import "reflect"

// UntypedArgs are the inputs of an object, as its manifest has them.
type UntypedArgs map[string]any

// ElementType is the type of the inputs once they are known.
func (UntypedArgs) ElementType() reflect.Type {
	return reflect.TypeFor[map[string]any]()
}
