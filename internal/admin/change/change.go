// Package change reads a change of a few objects that a client posts.
package change

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"unicode/utf8"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/printable"
)

// Question asks what a change of objects would do.
type Question struct {
	Caller    string // the only namespace that the caller may see; empty: it may see all
	Namespace string // of objects that name none
	Source    string // where the objects come from; empty: where they are, or the first source
	Documents []config.Document
	Gone      []config.Key // objects to remove
}

// Error is an error that a page answers with.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// Bounds of a change that is posted.
const (
	mostBody     = 512 << 10
	mostObjects  = 100 // documents and keys; the planner has a lower limit of objects
	mostFileName = 256
	mostLine     = 100_000_000
)

// Read reads a change that a caller of a namespace posts, or one who may see all. kinds are those that objects may have. Its errors are of
// type Error.
func Read(w http.ResponseWriter, r *http.Request, namespace string, all bool, kinds []config.Kind) (q Question, err error) {
	wrong := func(code int, format string, args ...any) error {
		return &Error{code, fmt.Sprintf(format, args...)}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return q, wrong(http.StatusUnsupportedMediaType, "want a change as application/json; pilotctl plan -f sends one")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return q, wrong(http.StatusRequestEntityTooLarge, "the change has more than %d KiB: plan it in parts", mostBody>>10)
	case err != nil:
		return q, wrong(http.StatusBadRequest, "the change could not be read: %v", err)
	case !utf8.Valid(body):
		return q, wrong(http.StatusBadRequest, "the change is not UTF-8")
	}
	var in page.PlanRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return q, wrong(http.StatusBadRequest, "the change is no such JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return q, wrong(http.StatusBadRequest, "the change is one JSON object, and something follows it")
	}
	switch n := len(in.Documents) + len(in.Gone); {
	case n == 0:
		return q, wrong(http.StatusBadRequest, "the change is empty: name documents, or objects that are gone")
	case n > mostObjects:
		return q, wrong(http.StatusRequestEntityTooLarge, "the change has %d objects of at most %d: plan it in parts", n, mostObjects)
	case !all && in.Source != "":
		return q, wrong(http.StatusForbidden, "only callers who may see all may name a source")
	}
	q = Question{Caller: namespace, Namespace: in.Namespace, Source: in.Source}
	if all {
		q.Caller = ""
	}
	if q.Namespace == "" {
		q.Namespace = namespace
	}
	for _, one := range in.Documents {
		if len(one.File) > mostFileName || one.Line < 0 || one.Line > mostLine {
			return q, wrong(http.StatusBadRequest, "file and line of a document: want at most %d bytes, and a number", mostFileName)
		}
		for _, doc := range config.Split(printable.Text(one.File, printable.Long), []byte(one.Text)) {
			doc.Line += max(one.Line, 1) - 1
			q.Documents = append(q.Documents, doc)
		}
	}
	for _, k := range in.Gone {
		kind, known := config.KindCalled(k.Kind, kinds)
		if !known || !printable.IsName(k.Name, mostFileName) || !printable.IsName(k.Namespace, mostFileName) {
			return q, wrong(http.StatusBadRequest, "%s names no object: write a kind as VirtualService",
				printable.Text(k.Kind+" "+k.Namespace+"/"+k.Name, printable.Short))
		}
		q.Gone = append(q.Gone, config.Key{Kind: kind, Namespace: k.Namespace, Name: k.Name})
	}
	return q, nil
}
