package way

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/printable"
)

// invalid is the panic of a way that meets an invalid message. Explain turns it into an error.
type invalid struct{ err error }

// Refuse ends the interpretation with an error about a resource.
func Refuse(resource, format string, args ...any) {
	panic(invalid{fmt.Errorf("%s: %s", resource, printable.Text(fmt.Sprintf(format, args...), 500))})
}

// Validate ends the interpretation if a resource is not valid. Each is checked once.
func (w *Walk) Validate(resource string, m interface{ Validate() error }) {
	if w.valid[resource] {
		return
	}
	check(resource, m)
	w.valid[resource] = true
}

func check(resource string, m interface{ Validate() error }) {
	if err := m.Validate(); err != nil {
		Refuse(resource, "%v", err)
	}
}

// Unpack reads the configuration of an extension; false: it is of another type.
func Unpack(resource string, from *anypb.Any, into interface {
	proto.Message
	Validate() error
},
) bool {
	if !from.MessageIs(into) {
		return false
	}
	if err := from.UnmarshalTo(into); err != nil {
		Refuse(resource, "%s: %v", from.GetTypeUrl(), err)
	}
	check(resource, into)
	return true
}

// TypeName returns the name of the type of an extension's configuration.
func TypeName(a *anypb.Any) string {
	return a.GetTypeUrl()[strings.LastIndexByte(a.GetTypeUrl(), '/')+1:]
}

// Sorted returns the keys of a map in order.
func Sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Quote returns text from outside, fit to print.
func Quote(s string) string { return `"` + printable.Text(s, 200) + `"` }

// Objects returns the users' objects that metadata names.
func Objects(m *corev3.Metadata) []string {
	if text := m.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue(); text != "" {
		return []string{text}
	}
	return nil
}
