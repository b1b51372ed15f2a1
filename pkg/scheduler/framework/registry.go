package framework

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// PluginFactory builds a plugin from its arguments (JSON; empty if there are none). It must start
// nothing and not use the handle's clients, because a configuration is checked by building its
// plugins without a hub.
type PluginFactory func(ctx context.Context, args json.RawMessage, handle *Handle) (Plugin, error)

// Registry holds the plugins that a configuration may name.
type Registry map[string]PluginFactory

// Register adds a plugin. It returns an error if the name is already registered, or the factory is
// nil.
func (r Registry) Register(name string, factory PluginFactory) error {
	if factory == nil {
		return fmt.Errorf("plugin %q has no factory", name)
	}
	if _, taken := r[name]; taken {
		return fmt.Errorf("plugin %q is registered twice", name)
	}
	r[name] = factory
	return nil
}

// Merge adds all plugins of o. Its error lists every name that was already registered.
func (r Registry) Merge(o Registry) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(o)) {
		errs = append(errs, r.Register(name, o[name]))
	}
	return errors.Join(errs...)
}

// DecodeArgs decodes a plugin's arguments strictly over the given defaults: a field that is
// unknown, written in another case or given twice is an error, which names the possible ones.
func DecodeArgs[T any](raw json.RawMessage, defaults T) (T, error) {
	if len(raw) == 0 {
		return defaults, nil
	}
	mistakes, err := kjson.UnmarshalStrict(raw, &defaults)
	if err := errors.Join(append(mistakes, err)...); err != nil {
		return defaults, fmt.Errorf("decoding arguments: %w; possible arguments: %s", err, argumentsOf(reflect.TypeFor[T]()))
	}
	return defaults, nil
}

// argumentsOf lists the arguments that a type has.
func argumentsOf(t reflect.Type) string {
	var names []string
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
