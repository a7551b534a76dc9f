package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"fairway/internal/config"
	"fairway/internal/printable"
)

// object is a rule, in its author's words where the source has them.
type object struct {
	Key  config.Key
	File string `json:",omitempty"` // what problems call its place
	Line int    `json:",omitempty"`
	Text string
	Tree bool `json:",omitempty"` // the text is made here, of an object that came as a message
}

// maxPlace is how many bytes the name of a place may have.
const maxPlace = 4 << 10

// written lists what is kept of objects. Secrets are left out, and so is what is made of others, and what could not be read back.
func written(all []*config.Object) (out []object, err error) {
	for _, o := range all {
		if o.Kind == config.Secret || o.Credential != nil || o.Made != nil || !printable.Is(o.Ref.File, maxPlace) {
			continue
		}
		row := object{Key: o.Key, File: o.Ref.File, Line: o.Ref.Line, Text: string(o.Text)}
		if row.Tree = len(o.Text) == 0; row.Tree {
			text, err := tree(o)
			if err != nil {
				return nil, err
			}
			if text == nil {
				continue
			}
			row.Text = string(text)
		}
		out = append(out, row)
	}
	return out, nil
}

// groups are the API versions of Istio's kinds, one of each.
var groups = func() map[config.Kind]string {
	out := map[config.Kind]string{}
	for _, api := range config.APIs() {
		out[api.Kind] = api.Group + "/" + api.Versions[0]
	}
	return out
}()

// document is an object as an API server has it.
type document struct {
	APIVersion string          `json:"apiVersion"`
	Kind       config.Kind     `json:"kind"`
	Metadata   metadata        `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     string            `json:"creationTimestamp,omitempty"`
}

// tree is an object without a text as JSON; nil: it is of no kind of Istio's.
func tree(o *config.Object) ([]byte, error) {
	version, is := groups[o.Kind]
	if !is {
		return nil, nil
	}
	spec, err := protojson.Marshal(o.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	out := document{APIVersion: version, Kind: o.Kind, Spec: spec, Metadata: metadata{
		Name: o.Name, Namespace: o.Namespace, Labels: o.Labels.Map(), Annotations: o.Annotations,
	}}
	if o.Created != 0 {
		out.Metadata.Created = time.Unix(o.Created, 0).UTC().Format(time.RFC3339)
	}
	return json.Marshal(out)
}

// read makes objects of what was written.
func read(all []object, rules *config.Decoder) (out []*config.Object, err error) {
	for _, row := range all {
		if rules == nil || row.Key.Kind == config.Secret || row.Line < 0 || !printable.Is(row.File, maxPlace) {
			return nil, errors.New("an object of it is none that is kept")
		}
		o := row.decode(rules)
		switch {
		case o == nil:
		case o.Key != row.Key || o.Credential != nil:
			return nil, errors.New("an object of it is another than it is called")
		default:
			out = append(out, o)
		}
	}
	return out, nil
}

// decode reads a row as its source did; nil: it is not valid.
func (row object) decode(rules *config.Decoder) (o *config.Object) {
	doc := config.Document{File: row.File, Line: row.Line, Text: []byte(row.Text)}
	switch {
	case row.Tree:
		if o, _ = rules.DecodeJSON("", doc.Text); o == nil {
			return nil
		}
		ref := o.Ref
		ref.File, ref.Line = row.File, row.Line
		return o.At(config.Written{Ref: ref})
	case row.Key.Kind == config.MeshConfig:
		o, _ = rules.DecodeMeshConfig(doc)
	case row.Key.Kind == config.MeshNetworks:
		o, _ = rules.DecodeMeshNetworks(doc)
	default:
		o, _ = rules.Decode(doc)
	}
	return o
}
