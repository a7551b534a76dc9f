package api

import (
	"fmt"
	"net/http"
	"slices"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/api/book"
	"fairway/internal/source/platform"
)

// Refusal is why something was not taken. Nothing of it counts.
type Refusal struct {
	Status   int            // of HTTP
	Message  string         // the mistake, in a sentence
	Problems []mesh.Problem // of the thing that was put, as far as it could be read
}

func (r *Refusal) Error() string {
	out := r.Message
	for _, p := range r.Problems {
		if p.Severity == mesh.Error {
			out += "; " + p.String()
		}
	}
	return printable.Text(out, printable.Long)
}

// Missing reports whether the thing to change does not exist.
func (r *Refusal) Missing() bool { return r.Status == http.StatusNotFound }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Condition is what must be so for a change to be made. The zero value is met always.
type Condition struct {
	Revision uint64 // that the thing has; 0: any
	Exists   bool
	Absent   bool
}

func (c Condition) check(k book.Key, e *book.Entry) error {
	switch {
	case c.Absent && e != nil:
		return refuse(http.StatusPreconditionFailed, "%s is there already, in revision %d", k.Path(), e.Revision)
	case (c.Exists || c.Revision != 0) && e == nil:
		return refuse(http.StatusPreconditionFailed, "%s is not there", k.Path())
	case c.Revision != 0 && e.Revision != c.Revision:
		return refuse(http.StatusPreconditionFailed, "%s is in revision %d by now; read it again, and change that", k.Path(), e.Revision)
	}
	return nil
}

// checkName returns an error if a word of a path is not a name.
func checkName(what, name string) error {
	if name == "" || len(name) > 253 || !printable.Is(name, 253) || slices.Contains([]byte(name), '/') || name == "." || name == ".." {
		return refuse(http.StatusBadRequest, "%s: %s is not valid; want letters, digits, '-' and '.', at most 253", what, quoted(name))
	}
	return nil
}

// change is one that was checked and makes a difference.
type change struct {
	entry    book.Entry
	shard    source.Shard
	problems []mesh.Problem
	service  *Service // nil: it is an object, or gone
	renews   bool     // all instances of the service were put now
}

// checkService brings a service into the form that is stored, and makes its rows.
func (s *Source) checkService(v *Service) (change, error) {
	for _, err := range []error{checkName("namespace", v.Namespace), checkName("name", v.Name)} {
		if err != nil {
			return change{}, err
		}
	}
	if err := v.order(); err != nil {
		return change{}, refuse(http.StatusUnprocessableEntity, "%s: %s", v.key().Path(), err)
	}
	shard, problems := s.serviceRows(v)
	if v.Port > 65535 {
		problems = append(problems, v.problem("port", code.BadPort, "want a number from 1 to 65535"))
	}
	if len(shard.Rows.Services) == 1 && len(v.ExportTo) > 0 && !slices.Equal(shard.Rows.Services[0].ExportTo, v.ExportTo) {
		problems = append(problems, v.problem("exportTo", code.BadExportTo, `want namespaces, ".", "*" or "~"`))
	}
	if failed(problems) || len(shard.Rows.Services) == 0 {
		return change{}, &Refusal{http.StatusUnprocessableEntity, v.key().Path() + " is refused", problems}
	}
	e := book.Entry{
		Key: v.key(), Body: encode(v), Instances: len(v.Instances), Ports: len(shard.Rows.Services[0].Ports),
	}
	return change{entry: e, shard: shard, problems: problems, service: v}, nil
}

func (s *Service) problem(field, code, message string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: "Service", Namespace: s.Namespace, Name: s.Name}, Field: field, Code: code,
		Severity: mesh.Error, Message: message,
	}
}

func failed(problems []mesh.Problem) bool {
	return slices.ContainsFunc(problems, func(p mesh.Problem) bool { return p.Severity == mesh.Error })
}

// checkObject decodes the text of an object, and holds it to its key; of the zero key it takes the text's. The text must
// not be changed afterwards.
func (s *Source) checkObject(k book.Key, text []byte) (change, error) {
	docs := config.Split("", text)
	if len(docs) != 1 {
		return change{}, refuse(http.StatusUnprocessableEntity, "the body holds %d objects; want one", len(docs))
	}
	doc := docs[0]
	if k == (book.Key{}) {
		object, problems := s.decoder.Decode(doc)
		if object == nil {
			return change{}, &Refusal{http.StatusUnprocessableEntity, "an object is refused", problems}
		}
		k = book.Key{Kind: string(object.Kind), Namespace: object.Namespace, Name: object.Name}
	}
	if !slices.Contains(config.Kinds(), config.Kind(k.Kind)) {
		return change{}, refuse(http.StatusUnprocessableEntity, "%s is not a kind that is taken here; want one of Istio's: %v",
			quoted(k.Kind), config.Kinds())
	}
	for _, err := range []error{checkName("namespace", k.Namespace), checkName("name", k.Name)} {
		if err != nil {
			return change{}, err
		}
	}
	doc.File = "/v1/" + k.Path()
	shard, problems := s.objectRows(k, doc)
	if failed(problems) || len(shard.Rows.Objects) == 0 {
		return change{}, &Refusal{http.StatusUnprocessableEntity, k.Path() + " is refused", problems}
	}
	if o := shard.Rows.Objects[0]; o.Key != (config.Key{Kind: config.Kind(k.Kind), Namespace: k.Namespace, Name: k.Name}) {
		return change{}, refuse(http.StatusUnprocessableEntity,
			"the body is %s, the path says %s %s/%s; an object that names no namespace is in %s",
			printable.Text(o.Key.String(), printable.Short), k.Kind, k.Namespace, k.Name, platform.DefaultNamespace)
	}
	return change{entry: book.Entry{Key: k, Body: doc.Text}, shard: shard, problems: problems}, nil
}
