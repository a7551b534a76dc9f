package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source/api/book"
)

// problem is one as the API tells it.
type problem struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Object   string `json:"object,omitempty"`
	Field    string `json:"field,omitempty"`
	Line     int    `json:"line,omitempty"`
	Message  string `json:"message"`
	Fix      string `json:"fix,omitempty"`
}

func problems(list []mesh.Problem) (out []problem) {
	for _, p := range list[:min(len(list), mostProblems)] {
		object := p.Object
		object.File = ""
		out = append(out, problem{p.Severity.String(), p.Code, object.String(), p.Field, p.Line, p.Message, p.Fix})
	}
	return out
}

// answer is that to a change.
type answer struct {
	Revision uint64    `json:"revision"`
	Problems []problem `json:"problems,omitempty"`
}

// refusal is that to a request that changes nothing.
type refusal struct {
	Error    string    `json:"error"`
	Problems []problem `json:"problems,omitempty"`
}

func (s *Source) refused(w http.ResponseWriter, err error) {
	var why *Refusal
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &why):
	case errors.As(err, &large):
		why = refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes (maxBodyMiB, maxSnapshotMiB)", large.Limit)
	case errors.Is(err, errBusy):
		why = refuse(http.StatusServiceUnavailable, "%s", err)
	default:
		why = refuse(http.StatusBadRequest, "%s", err)
	}
	switch why.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	show(w, why.Status, refusal{printable.Text(why.Message, printable.Long), problems(why.Problems)})
}

// show answers with JSON. If the client does not read the answer, it is lost.
func show(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(encode(v), '\n'))
}

func etag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

func done(w http.ResponseWriter, out Outcome, err error) error {
	if err != nil {
		return err
	}
	status := http.StatusOK
	if out.Created {
		status = http.StatusCreated
	}
	w.Header().Set("ETag", etag(out.Revision))
	show(w, status, answer{out.Revision, problems(out.Problems)})
	return nil
}

// condition reads If-Match and If-None-Match.
func condition(r *http.Request) (c Condition, err error) {
	switch match := r.Header.Get("If-Match"); match {
	case "":
	case "*":
		c.Exists = true
	default:
		if c.Revision, err = revisionOf(match); err != nil {
			return c, fmt.Errorf("If-Match: %w", err)
		}
	}
	switch r.Header.Get("If-None-Match") {
	case "":
	case "*":
		c.Absent = true
	default:
		return c, errors.New("If-None-Match: want * of a change")
	}
	return c, nil
}

func revisionOf(tag string) (uint64, error) {
	text, err := strconv.Unquote(tag)
	n, bad := strconv.ParseUint(text, 10, 64)
	if err != nil || bad != nil || n == 0 || tag[0] != '"' {
		return 0, fmt.Errorf(`%s is not an ETag of this server; want one, as "1790000000000000", or *`, quoted(tag))
	}
	return n, nil
}

// body reads one, and returns what gives its room back.
func (s *Source) body(w http.ResponseWriter, r *http.Request, mib int64) (text []byte, free func(), err error) {
	most := mib << 20
	if r.ContentLength > most {
		return nil, nil, &http.MaxBytesError{Limit: most}
	}
	wants := r.ContentLength
	if wants < 0 {
		wants = most
	}
	if free, err = s.bodies.take(r.Context(), wants); err != nil {
		return nil, nil, err
	}
	var buf bytes.Buffer
	buf.Grow(int(max(0, min(r.ContentLength, 64<<10)))) // do not trust the announced length
	if _, err = buf.ReadFrom(http.MaxBytesReader(w, r.Body, most)); err != nil {
		free()
		var large *http.MaxBytesError
		if !errors.As(err, &large) {
			err = fmt.Errorf("the body did not come whole: %s", printable.Text(err.Error(), printable.Short))
		}
		return nil, nil, err
	}
	text = buf.Bytes()
	if n := bytes.Count(text, []byte{'{'}); n > spareValues+len(text)/leastValue {
		free()
		return nil, nil, refuse(http.StatusRequestEntityTooLarge,
			"the body has %d values in %d bytes, more than could say anything", n, len(text))
	}
	return text, free, nil
}

// Values that a body may have, so that it is not far larger once it is decoded: so many, and one for so many bytes.
const (
	spareValues = 300_000
	leastValue  = 48
)

// query reads the words behind the path. One that is not among names is a mistake.
func query(r *http.Request, names ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query cannot be read: %s", printable.Text(err.Error(), printable.Short))
	}
	for name, values := range q {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the query has %s, which is not a known parameter; want %s", quoted(name), strings.Join(names, ", "))
		}
		if len(values) > 1 {
			return nil, fmt.Errorf("the query has %s twice", name)
		}
	}
	return q, nil
}

func number(q url.Values, name string, otherwise, most uint64) (uint64, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s: %s; want a number up to %d", name, quoted(q.Get(name)), most)
	}
	return n, nil
}

func (s *Source) putService(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	if err != nil {
		return err
	}
	text, free, err := s.body(w, r, s.opts.MaxBody)
	if err != nil {
		return err
	}
	defer free()
	var v Service
	if err := readJSON(text, &v); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		has  *string
	}{{"namespace", &v.Namespace}, {"name", &v.Name}} {
		if is := r.PathValue(f.name); *f.has == "" {
			*f.has = is
		} else if *f.has != is {
			return fmt.Errorf("%s: the body says %s, the path %s", f.name, quoted(*f.has), quoted(is))
		}
	}
	out, err := s.PutService(v, c)
	return done(w, out, err)
}

func (s *Source) putInstance(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	if err != nil {
		return err
	}
	text, free, err := s.body(w, r, s.opts.MaxBody)
	if err != nil {
		return err
	}
	defer free()
	var in Instance
	if err := readJSON(text, &in); err != nil {
		return err
	}
	if id := r.PathValue("id"); in.ID == "" {
		in.ID = id
	} else if in.ID != id {
		return fmt.Errorf("id: the body says %s, the path %s", quoted(in.ID), quoted(id))
	}
	out, err := s.PutInstance(r.PathValue("namespace"), r.PathValue("name"), in, c)
	return done(w, out, err)
}

func (s *Source) deleteInstance(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	if err != nil {
		return err
	}
	out, err := s.DeleteInstance(r.PathValue("namespace"), r.PathValue("name"), r.PathValue("id"), c)
	return done(w, out, err)
}

func (s *Source) deleteService(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	if err != nil {
		return err
	}
	out, err := s.DeleteService(r.PathValue("namespace"), r.PathValue("name"), c)
	return done(w, out, err)
}

func (s *Source) putObject(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	if err != nil {
		return err
	}
	text, free, err := s.body(w, r, s.opts.MaxBody)
	if err != nil {
		return err
	}
	defer free()
	if !utf8.Valid(text) {
		return errUTF8
	}
	out, err := s.PutObject(r.PathValue("kind"), r.PathValue("namespace"), r.PathValue("name"), text, c)
	return done(w, out, err)
}

func (s *Source) deleteObject(w http.ResponseWriter, r *http.Request) error {
	c, err := condition(r)
	if err != nil {
		return err
	}
	out, err := s.DeleteObject(r.PathValue("kind"), r.PathValue("namespace"), r.PathValue("name"), c)
	return done(w, out, err)
}

// get shows one thing as it is stored.
func (s *Source) get(w http.ResponseWriter, r *http.Request) error {
	k := book.Key{Kind: r.PathValue("kind"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	s.mu.Lock()
	e := s.book.Get(k)
	s.mu.Unlock()
	if e == nil {
		return refuse(http.StatusNotFound, "%s is not there", printable.Text(k.Path(), printable.Short))
	}
	w.Header().Set("ETag", etag(e.Revision))
	if r.Header.Get("If-None-Match") == etag(e.Revision) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	is := "application/yaml"
	if k.Kind == "" || bytes.HasPrefix(bytes.TrimSpace(e.Body), []byte{'{'}) {
		is = "application/json"
	}
	w.Header().Set("Content-Type", is)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(e.Body) // an answer that the client does not read is lost
	if k.Kind == "" {
		_, _ = io.WriteString(w, "\n")
	}
	return nil
}
