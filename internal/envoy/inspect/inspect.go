// Package inspect checks the configuration of Envoy that rules bring along: patches of EnvoyFilters and configurations of extensions.
// It finds texts that lead to the agent beside Envoy: files in its folder, its sockets, its clusters, files of processes, keys and tokens.
// It also finds Lua, which runs with the rights of the proxy.
//
// The control plane and the agents make the same checks. The package does not know who wrote a patch, or what happens to a refused one.
package inspect

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/envoy/extension"
	"fairway/internal/mesh"
)

// deepest is how many messages, objects and lists may contain each other.
const deepest = 64

// agentClusters are the clusters that only the agent's own configuration may name. Requests there carry the agent's token.
var agentClusters = []string{bootstrap.XDSCluster, bootstrap.SecretsCluster, bootstrap.PrometheusCluster, extension.AgentCluster}

// Inspector checks messages and values. The zero Inspector knows the default folder of agents and reads no disk.
type Inspector struct {
	// Folder is the agent's folder; empty: only the default one is known.
	Folder string
	// Resolve returns where a path leads on this machine, with links followed; empty: nowhere. If it is nil, paths are compared as they
	// are written.
	Resolve func(path string) string
}

// Finding is the result for one message or value.
type Finding struct {
	Lua bool  // it runs Lua
	Err error // it leads to the agent; the text is for the author of the rule
}

// walk is one inspection.
type walk struct {
	Inspector
	finding Finding
	pair    bool // the message is a certificate with its key: Envoy reads these files and does not show the key
}

// Message inspects a message and everything that is packed in it.
func (i Inspector) Message(m proto.Message) Finding {
	if m == nil {
		return Finding{}
	}
	w := walk{Inspector: i}
	w.message(m.ProtoReflect(), 0)
	return w.finding
}

// Text inspects a single text. It returns an error if the text leads to the agent.
func (i Inspector) Text(s string) error {
	w := walk{Inspector: i}
	w.text(s)
	return w.finding.Err
}

// Value inspects a JSON value of an unknown message.
func (i Inspector) Value(v *structpb.Value) Finding {
	w := walk{Inspector: i}
	w.value(v, "", 0)
	return w.finding
}

func (w *walk) refuse(format string, args ...any) {
	if w.finding.Err == nil {
		w.finding.Err = fmt.Errorf(format, args...)
	}
}

// isLua reports whether a type's name belongs to something that runs Lua: the filter, its settings for a route, matchers.
func isLua(name string) bool { return strings.Contains(name, ".lua.") }

// Names of messages that have rules of their own.
const (
	anyMessage    = "google.protobuf.Any"
	valueMessage  = "google.protobuf.Value"
	pipeMessage   = "envoy.config.core.v3.Pipe"
	secretMessage = "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig"
	pairMessage   = "envoy.extensions.transport_sockets.tls.v3.TlsCertificate"
	routePackage  = "envoy.config.route.v3."
)

// routeTexts are the fields of routes that hold paths of requests. These are not files.
var routeTexts = []string{"prefix", "path", "path_separated_prefix", "prefix_rewrite", "path_redirect"}

func (w *walk) message(m protoreflect.Message, depth int) {
	if depth > deepest {
		w.refuse("it is more than %d messages deep", deepest)
		return
	}
	name := string(m.Descriptor().FullName())
	w.finding.Lua = w.finding.Lua || isLua(name)
	switch name {
	case anyMessage:
		if packed, ok := m.Interface().(*anypb.Any); ok {
			w.packed(packed, depth)
			return
		}
	case valueMessage:
		if v, ok := m.Interface().(*structpb.Value); ok {
			w.value(v, "", depth)
			return
		}
	case secretMessage:
		return // Envoy uses such keys for TLS and gives none away, so authors may name the agent's cluster here
	case pairMessage:
		defer func(before bool) { w.pair = before }(w.pair)
		w.pair = true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		w.field(name, f, v, depth)
		return true
	})
}

func (w *walk) field(of string, f protoreflect.FieldDescriptor, v protoreflect.Value, depth int) {
	switch {
	case f.IsMap():
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			w.single(of, f.MapKey(), k.Value(), depth)
			w.single(of, f.MapValue(), v, depth)
			return true
		})
	case f.IsList():
		for i := range v.List().Len() {
			w.single(of, f, v.List().Get(i), depth)
		}
	default:
		w.single(of, f, v, depth)
	}
}

func (w *walk) single(of string, f protoreflect.FieldDescriptor, v protoreflect.Value, depth int) {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		w.message(v.Message(), depth+1)
	case protoreflect.BytesKind:
		w.text(string(v.Bytes()))
	case protoreflect.StringKind:
		if strings.HasPrefix(of, routePackage) && slices.Contains(routeTexts, string(f.Name())) {
			return
		}
		if of == pipeMessage {
			w.socket(v.String())
		}
		w.text(v.String())
	}
}

// packed inspects the message in an Any. A type that is not known is searched as text.
func (w *walk) packed(a *anypb.Any, depth int) {
	if w.text(a.GetTypeUrl()); isLua(a.GetTypeUrl()) {
		w.finding.Lua = true
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		w.text(string(a.GetValue()))
		return
	}
	w.message(m.ProtoReflect(), depth+1)
}

// value inspects JSON. of is the name of the field that holds it.
func (w *walk) value(v *structpb.Value, of string, depth int) {
	if depth > deepest {
		w.refuse("it is more than %d objects and lists deep", deepest)
		return
	}
	switch v := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		w.valueText(of, v.StringValue)
	case *structpb.Value_ListValue:
		for _, one := range v.ListValue.GetValues() {
			w.value(one, of, depth+1)
		}
	case *structpb.Value_StructValue:
		switch of {
		case "private_key", "privateKey", "certificate_chain", "certificateChain":
			defer func(before bool) { w.pair = before }(w.pair)
			w.pair = true
		}
		for name, one := range v.StructValue.GetFields() {
			if w.text(name); of == "pipe" && name == "path" {
				w.socket(one.GetStringValue())
			}
			w.value(one, name, depth+1)
		}
	}
}

// valueText inspects a text in JSON. Bytes are written in base64 there.
func (w *walk) valueText(of, s string) {
	if w.text(s); isLua(s) && (of == "@type" || of == "type_url" || of == "typeUrl" || of == "type_urls" || of == "typeUrls") {
		w.finding.Lua = true
	}
	if of == "inline_bytes" || of == "inlineBytes" {
		if raw, err := base64.StdEncoding.DecodeString(s); err == nil {
			w.text(string(raw))
		}
	}
}

// socket inspects the path of a unix socket.
func (w *walk) socket(path string) {
	if mesh.Guarded("unix://"+path, 0, nil, w.Folder) {
		w.refuse("the socket %s may be one of the agent, of Envoy or of SPIRE; name another one by its full path", shown(path))
	}
}
