package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/config"
	"fairway/internal/printable"
)

// The default prefix and mesh of a Layout.
const (
	DefaultPrefix = "/fairway"
	DefaultMesh   = "default"
)

// meshGroup is the group in the keys of the mesh's own kinds, which have no API group.
const meshGroup = "mesh.istio.io"

// coreGroup is the group in the keys of kinds of Kubernetes' core API, where the group has no name.
const coreGroup = "core"

// longestPrefix is how many bytes a Layout's prefix may have.
const longestPrefix = 256

// Layout is where the objects of one mesh are:
//
//	PREFIX/MESH/GROUP/KIND/NAMESPACE/NAME   most kinds: /fairway/default/networking.istio.io/Gateway/shop/front
//	PREFIX/MESH/GROUP/KIND/NAME             kinds without a namespace
//	PREFIX/MESH/mesh.istio.io/KIND          MeshConfig and MeshNetworks, one object of each
//
// An object's API version is in its value alone, so that it cannot be there twice. The zero Layout is the default mesh's.
type Layout struct {
	// Prefix is the prefix of all keys; /fairway when empty. It begins with a slash and does not end with one.
	Prefix string `json:"prefix"`
	// Mesh is the mesh that the objects belong to; default when empty. It is a name as a namespace's is.
	Mesh string `json:"mesh"`
}

// Validate says which field is wrong.
func (l Layout) Validate() error {
	p := l.Prefix
	switch {
	case p != "" && (!strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") || strings.Contains(p, "//")):
		return fmt.Errorf("prefix %q: begin with a slash, and end with none: /fairway", printable.Text(p, printable.Short))
	case !printable.Is(p, longestPrefix) || strings.ContainsAny(p, " "):
		return fmt.Errorf("prefix: at most %d printable characters without spaces", longestPrefix)
	}
	if l.Mesh != "" && len(validation.IsDNS1123Label(l.Mesh)) > 0 {
		return fmt.Errorf("mesh %q: want a name of small letters, digits and dashes", printable.Text(l.Mesh, printable.Short))
	}
	return nil
}

// Root returns the prefix of the keys of all the mesh's objects. It ends with a slash.
func (l Layout) Root() string {
	return cmp.Or(l.Prefix, DefaultPrefix) + "/" + cmp.Or(l.Mesh, DefaultMesh) + "/"
}

// Shared returns the prefix of the keys of records that the mesh's control planes share: PREFIX/.shared/MESH/. It ends with a
// slash. No mesh is called .shared, so it is below no mesh's Root.
func (l Layout) Shared() string {
	return cmp.Or(l.Prefix, DefaultPrefix) + "/.shared/" + cmp.Or(l.Mesh, DefaultMesh) + "/"
}

// groups tells the API group of each kind, as keys have it. It is made once.
var groups = sync.OnceValue(func() map[config.Kind]string {
	out := config.Groups()
	for kind, group := range out {
		if group == "" {
			out[kind] = coreGroup
		}
	}
	out[config.MeshConfig], out[config.MeshNetworks] = meshGroup, meshGroup
	return out
})

// Kinds lists the kinds that there are keys for, by name.
func Kinds() []config.Kind {
	var out []config.Kind
	for kind := range groups() {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}

// Single reports whether there is one object of a kind, which has neither namespace nor name.
func Single(k config.Kind) bool { return k == config.MeshConfig || k == config.MeshNetworks }

// Key returns the key of an object.
func (l Layout) Key(k config.Key) string {
	at := l.Below(k.Kind, "")
	switch {
	case Single(k.Kind):
		return strings.TrimSuffix(at, "/")
	case k.Kind.ClusterWide():
		return at + k.Name
	}
	return at + k.Namespace + "/" + k.Name
}

// Below returns the prefix of the keys of a kind's objects, in all namespaces or in one. It ends with a slash.
func (l Layout) Below(kind config.Kind, namespace string) string {
	at := l.Root() + groups()[kind] + "/" + kind.Word() + "/"
	if namespace != "" && !kind.ClusterWide() {
		at += namespace + "/"
	}
	return at
}

// longestKey is how many bytes of a key are looked at: no object has a longer one.
const longestKey = longestPrefix + 1024

// Object is the object that a key below Root is of. The error says why it is none's; it is fit to be shown.
func (l Layout) Object(key string) (config.Key, error) {
	rest, below := strings.CutPrefix(key, l.Root())
	if !below || len(key) > longestKey || !printable.Is(key, longestKey) {
		return config.Key{}, errors.New("it is not a key of an object")
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 2 {
		return config.Key{}, errors.New("want GROUP/KIND/NAMESPACE/NAME")
	}
	kind, err := kindAt(parts[0], parts[1])
	if err != nil {
		return config.Key{}, err
	}
	names := parts[2:]
	switch {
	case Single(kind) && len(names) == 0:
		return config.Key{Kind: kind}, nil
	case !Single(kind) && kind.ClusterWide() && len(names) == 1 && named(names[0]):
		return config.Key{Kind: kind, Name: names[0]}, nil
	case !Single(kind) && !kind.ClusterWide() && len(names) == 2 && named(names[1]) && len(validation.IsDNS1123Label(names[0])) == 0:
		return config.Key{Kind: kind, Namespace: names[0], Name: names[1]}, nil
	}
	return config.Key{}, fmt.Errorf("want %s", strings.TrimPrefix(l.form(kind), l.Root()))
}

// kindAt returns the kind that a key names.
func kindAt(group, word string) (config.Kind, error) {
	var others []string // groups that have such a kind
	for kind, of := range groups() {
		if kind.Word() == word {
			if of == group {
				return kind, nil
			}
			others = append(others, of)
		}
	}
	if others == nil {
		return "", fmt.Errorf("%s is not a kind that is read", strconv.Quote(word))
	}
	slices.Sort(others)
	return "", fmt.Errorf("%s is of group %s", word, strings.Join(others, " or "))
}

func named(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

// form is how keys of a kind look.
func (l Layout) form(kind config.Kind) string {
	if Single(kind) {
		return l.Key(config.Key{Kind: kind})
	}
	return l.Key(config.Key{Kind: kind, Namespace: "NAMESPACE", Name: "NAME"})
}

// Decode reads the value of an object's key. If the value is not that object, or is not valid, the object is nil and the problems
// give the reason. file is the name of the place in the problems.
func Decode(d *config.Decoder, k config.Key, file string, value []byte) (*config.Object, []Problem) {
	doc := config.Document{File: file, Line: 1, Text: value}
	switch k.Kind {
	case config.MeshConfig:
		return d.DecodeMeshConfig(doc)
	case config.MeshNetworks:
		return d.DecodeMeshNetworks(doc)
	}
	docs := config.Split(file, value)
	if len(docs) != 1 {
		return nil, []Problem{refusal(k, file, fmt.Sprintf("the value holds %d documents", len(docs)), "store one object under a key")}
	}
	o, problems := d.Decode(docs[0])
	switch {
	case o == nil && !failed(problems): // none of ours, under a key of ours
		problems = append(problems, refusal(k, file, "the value is no "+string(k.Kind), "store under a key the object that it is of"))
	case o != nil && o.Key != k:
		return nil, append(problems, refusal(k, file, "the value is "+o.Key.String()+", which the key is not of",
			"write kind, metadata.namespace and metadata.name as the key has them; pilotctl apply does"))
	}
	return o, problems
}
