package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
)

// merges is how a map is laid under another. The reader that keeps the order of keys leaves out what
// is laid under, so that such a manifest is read without it.
var merges = regexp.MustCompile(`<<\s*:`)

// writeObjects writes the manifests as one JSON list. Scalars are what Kubernetes' own reader of
// YAML takes them for; keys stay in the order in which the templates have them, which is the order
// that people read. Documents without content are left out.
func writeObjects(manifests []string, out *bytes.Buffer) error {
	comma := false
	out.WriteByte('[')
	for _, manifest := range manifests {
		decoder := yaml.NewDecoder(strings.NewReader(manifest))
		for {
			object, err := next(decoder, merges.MatchString(manifest))
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if len(object) == 0 {
				continue
			}
			if comma {
				out.WriteByte(',')
			}
			comma = true
			if err := write(object, out); err != nil {
				return err
			}
		}
	}
	out.WriteByte(']')
	return nil
}

func next(documents *yaml.Decoder, merging bool) (yaml.MapSlice, error) {
	if !merging {
		var object yaml.MapSlice
		err := documents.Decode(&object)
		return object, err
	}
	var object map[any]any
	err := documents.Decode(&object)
	return sorted(object), err
}

func sorted(object map[any]any) yaml.MapSlice {
	var entries yaml.MapSlice
	for key, value := range object {
		entries = append(entries, yaml.MapItem{Key: key, Value: value})
	}
	slices.SortFunc(entries, func(a, b yaml.MapItem) int {
		return strings.Compare(fmt.Sprint(a.Key), fmt.Sprint(b.Key))
	})
	return entries
}

func write(value any, out *bytes.Buffer) error {
	switch value := value.(type) {
	case yaml.MapSlice:
		return writeMap(value, out)
	case map[any]any:
		return writeMap(sorted(value), out)
	case []any:
		out.WriteByte('[')
		for place, item := range value {
			if place > 0 {
				out.WriteByte(',')
			}
			if err := write(item, out); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	default:
		text, err := json.Marshal(value)
		out.Write(text)
		return err
	}
}

func writeMap(entries yaml.MapSlice, out *bytes.Buffer) error {
	out.WriteByte('{')
	for place, entry := range entries {
		if place > 0 {
			out.WriteByte(',')
		}
		key, err := keyText(entry.Key)
		if err != nil {
			return err
		}
		if err := write(key, out); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := write(entry.Value, out); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// keyText is a key as Kubernetes reads it, which has text only.
func keyText(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case int, int64, uint64, bool:
		return fmt.Sprint(key), nil
	default:
		return "", fmt.Errorf("a key of a map is %v, which is no text", key)
	}
}
