package config

import (
	"strconv"
	"strings"

	"fairway/internal/config/document"
	"fairway/internal/mesh"
)

// Stored identifies an object of an API server and its version, so that its status can be written back.
type Stored struct {
	Cluster         string // as the source calls it
	UID             string
	Generation      int64 // of the specification that was read
	ResourceVersion string
}

// String is for people: cluster, UID and version.
func (s Stored) String() string {
	if s == (Stored{}) {
		return ""
	}
	return s.Cluster + " " + s.UID + "@" + s.ResourceVersion + " generation " + strconv.FormatInt(s.Generation, 10)
}

// StoredIn reads the identity of an object of cluster out of its metadata, even if the object does not decode. Values that no API server
// writes are left empty.
func StoredIn(cluster string, tree map[string]any) Stored {
	meta, _ := tree["metadata"].(map[string]any)
	s := Stored{Cluster: cluster, UID: opaque(meta["uid"]), ResourceVersion: opaque(meta["resourceVersion"])}
	switch g := meta["generation"].(type) {
	case int64:
		s.Generation = g
	case float64:
		s.Generation, _ = document.WholeNumber(g)
	}
	return s
}

// maxOpaque is the most bytes of a UID or a version; those of API servers have about forty.
const maxOpaque = 128

// opaque returns a text that only an API server understands.
func opaque(v any) string {
	s, _ := v.(string)
	if len(s) > maxOpaque || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return ""
	}
	return s
}

// DecodeTree reads one object of an API server as the server's clients have it: a tree of maps, lists, strings, bools, numbers and nil. It
// is what Decode is for a text, with the same checks and problems, but these have no file and no lines. The tree may be shared: it is not
// changed and not kept. cluster is the source's name for the server; empty: the server does not keep the object yet. Fields that are
// unknown are Warnings in an object that it keeps.
func (d *Decoder) DecodeTree(cluster string, tree map[string]any) (*Object, []mesh.Problem) {
	own, bad := document.Own(tree)
	if bad != nil {
		return d.decodeStored(cluster, tree, bad)
	}
	return d.decodeStored(cluster, own, nil)
}

// DecodeJSON is DecodeTree for an object that is still JSON, as a watch delivers it.
func (d *Decoder) DecodeJSON(cluster string, text []byte) (*Object, []mesh.Problem) {
	tree, bad := document.ParseJSON(text)
	return d.decodeStored(cluster, tree, bad)
}

// decodeStored reads a tree that it may change; if bad is set, the tree is only read for the object's name.
func (d *Decoder) decodeStored(cluster string, tree map[string]any, bad *document.Mistake) (*Object, []mesh.Problem) {
	w := d.draft(Document{})
	w.stored = StoredIn(cluster, tree)
	// An ALLOW without a field that narrows it would let more through.
	w.Accepted = cluster != "" && tree["kind"] != string(AuthorizationPolicy)
	if kind, _ := tree["kind"].(string); bad != nil && kind != "" {
		version, _ := tree["apiVersion"].(string)
		group, _, _ := strings.Cut(version, "/")
		w.readNames(unique(group, kind), tree)
	}
	return w.decode(d, tree, bad)
}
