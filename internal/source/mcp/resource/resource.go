// Package resource reads the messages that carry objects between control planes: istio.mcp.v1alpha1.Resource, in MCP as over xDS. They
// come from strangers: each is judged as an API server would, and a mistake is a Problem. It must not know how they came.
package resource

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	mcp "istio.io/api/mcp/v1alpha1"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// Synthetic is the prefix of the names of generated ServiceEntries: those of the services of a platform.
const Synthetic = "synthetic-"

// MaxName is how many bytes a name may have: namespace, slash, and name.
const MaxName = 512

// maxDepth is how many messages a specification may hold within each other.
const maxDepth = 100

// Reader makes objects of messages. It is safe for concurrent use.
type Reader struct {
	decoder *config.Decoder
	from    string
	kinds   map[config.Kind]config.API
}

// NewReader returns a reader of messages from a place, which problems name.
func NewReader(d *config.Decoder, from string) *Reader {
	return &Reader{decoder: d, from: from, kinds: config.APIsByKind()}
}

// Read makes an object of a message of a kind. Without an object the problems say why, the worst first; there may be problems beside one.
func (r *Reader) Read(kind config.Kind, m *mcp.Resource) (*config.Object, []mesh.Problem) {
	key, err := KeyOf(kind, m.GetMetadata().GetName())
	if err != nil {
		return nil, r.fail(key, err)
	}
	text, err := r.text(key, m)
	if err != nil {
		return nil, r.fail(key, err)
	}
	o, problems := r.decoder.DecodeJSON("", text)
	for i := range problems {
		if problems[i].Object.File == "" {
			problems[i].Object.File = r.from
		}
	}
	if o == nil {
		if len(problems) == 0 {
			return nil, r.fail(key, errors.New("it says nothing"))
		}
		return nil, problems
	}
	ref := o.Ref
	ref.File = r.from
	return o.At(config.Written{Ref: ref}), problems
}

// fail returns the one problem of a message that says nothing.
func (r *Reader) fail(key config.Key, err error) []mesh.Problem {
	return []mesh.Problem{{
		Object:   mesh.ObjectRef{Kind: string(key.Kind), Namespace: key.Namespace, Name: key.Name, File: r.from},
		Code:     code.WrongType,
		Severity: mesh.Error,
		Message:  printable.Text(err.Error(), printable.Long),
		Fix:      "it has to be corrected where it comes from",
	}}
}

// KeyOf reads a name on the wire: "namespace/name"; "/name" and "name" have no namespace.
func KeyOf(kind config.Kind, name string) (config.Key, error) {
	if len(name) > MaxName || !utf8.ValidString(name) {
		return config.Key{Kind: kind}, fmt.Errorf("a name has %d bytes, or is not text; at most %d are taken", len(name), MaxName)
	}
	namespace, base, both := strings.Cut(name, "/")
	if !both {
		namespace, base = "", name
	}
	key := config.Key{Kind: kind, Namespace: namespace, Name: base}
	if base == "" || strings.Contains(base, "/") {
		return key, fmt.Errorf("%q is not a name; want namespace/name", printable.Text(name, printable.Short))
	}
	return key, nil
}

// text returns the object as JSON.
func (r *Reader) text(key config.Key, m *mcp.Resource) ([]byte, error) {
	api, ok := r.kinds[key.Kind]
	if !ok {
		return nil, fmt.Errorf("%s is not a kind that is read", key.Kind)
	}
	spec := api.Spec()
	if err := sameMessage(m.GetBody().GetTypeUrl(), spec); err != nil {
		return nil, err
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth}).Unmarshal(m.GetBody().GetValue(), spec); err != nil {
		return nil, fmt.Errorf("the body is no %s: %w", spec.ProtoReflect().Descriptor().FullName(), err)
	}
	created := ""
	if at := m.Metadata.CreateTime; at != nil {
		if err := at.CheckValid(); err != nil {
			return nil, fmt.Errorf("createTime: %w", err)
		}
		created = at.AsTime().Truncate(time.Second).Format(time.RFC3339)
	}
	annotations := maps.Clone(m.Metadata.Annotations)
	maps.DeleteFunc(annotations, func(name, _ string) bool { return !config.UsedAnnotation(name) })
	out, err := api.JSON(key, m.Metadata.Labels, annotations, created, spec)
	if err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	return out, nil
}

// sameMessage returns an error if a body is not of the message that a kind has. All versions of an API have the same
// messages.
func sameMessage(url string, want proto.Message) error {
	have := url[strings.LastIndexByte(url, '/')+1:]
	name := want.ProtoReflect().Descriptor().FullName()
	pkg := string(name.Parent())
	version := strings.LastIndexByte(pkg, '.')
	rest, ok := strings.CutPrefix(have, pkg[:version+1])
	if _, message, both := strings.Cut(rest, "."); !ok || !both || message != string(name.Name()) {
		return fmt.Errorf("the body is a %q; want %s", printable.Text(have, printable.Short), name)
	}
	return nil
}
