package kept

import (
	"errors"

	"fairway/internal/config"
	"fairway/internal/printable"
)

// object is a rule, in its author's words if the source has them.
type object struct {
	Key  config.Key
	File string `json:",omitempty"` // what problems call its place
	Line int    `json:",omitempty"`
	Text string
	Tree bool `json:",omitempty"` // the text is made here, of an object that came as a message

	Created int64          `json:",omitempty"` // in Unix seconds, if the text does not say it
	Stored  *config.Stored `json:",omitempty"` // of an object that an API server has
}

// maxPlace is how many bytes the name of a place may have.
const maxPlace = 4 << 10

// written returns the row that keeps an object; false: the object is not kept. Secrets, objects made from others, and objects that
// could not be read back are left out.
func written(o *config.Object) (row object, is bool, err error) {
	if o.Kind == config.Secret || o.Credential != nil || o.Made != nil || !printable.Is(o.Ref.File, maxPlace) {
		return row, false, nil
	}
	row = object{Key: o.Key, File: o.Ref.File, Line: o.Ref.Line, Text: string(o.Text)}
	row.Created = o.Created
	if o.Stored != (config.Stored{}) {
		row.Stored = &o.Stored
	}
	if row.Tree = len(o.Text) == 0; row.Tree {
		text, err := o.JSON()
		if text == nil || err != nil {
			return row, false, err
		}
		row.Text = string(text)
	}
	return row, true, nil
}

// read decodes the objects that were written.
func read(all []object, rules *config.Decoder) (out []*config.Object, err error) {
	for _, row := range all {
		if rules == nil || row.Key.Kind == config.Secret || row.Line < 0 || !printable.Is(row.File, maxPlace) {
			return nil, errors.New("it contains an object of a kind that is not stored")
		}
		o := row.decode(rules)
		if o != nil && o.Created != row.Created && row.Created != 0 {
			o = o.CreatedAt(row.Created)
		}
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
	var stored config.Stored
	if row.Stored != nil {
		stored = *row.Stored
	}
	switch {
	case row.Tree:
		if o, _ = rules.DecodeJSON(stored.Cluster, doc.Text); o == nil {
			return nil
		}
		ref := o.Ref
		ref.File, ref.Line = row.File, row.Line
		return o.At(config.Written{Ref: ref, Stored: o.Stored})
	case row.Key.Kind == config.MeshConfig:
		o, _ = rules.DecodeMeshConfig(doc)
	case row.Key.Kind == config.MeshNetworks:
		o, _ = rules.DecodeMeshNetworks(doc)
	default:
		o, _ = rules.Decode(doc)
	}
	return o
}
