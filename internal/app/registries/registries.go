package registries

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"fairway/internal/app/lasting"
	"fairway/internal/disk"
	"fairway/internal/disk/watch"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
)

// Defaults are the defaults of entries.
type Defaults struct {
	Wait, Expiry time.Duration
}

// Options of New.
type Options struct {
	File     string  // the registries file; need not exist; empty: there is none
	Flags    []Entry // registries that flags name
	Defaults Defaults
	Env      Env
	Sources  *lasting.Sources
	Log      *slog.Logger
}

// Registries is a source without rows of its own: it starts and ends the registries' sources, and reports problems of the file. It
// is synced once it has read the file and all registries in it have joined.
type Registries struct {
	o    Options
	last map[string]checked // by source, of the file's entries that are in force
}

var _ source.Source = (*Registries)(nil)

// New returns a Registries. Its Sources must not be used elsewhere.
func New(o Options) *Registries { return &Registries{o: o, last: map[string]checked{}} }

// Name is the source's.
func (*Registries) Name() string { return "registries" }

const (
	mostBytes   = 1 << 20
	mostEntries = 100
)

// Run follows the file until ctx ends.
func (r *Registries) Run(ctx context.Context, sink source.Sink) error {
	if r.o.File == "" {
		r.settle(nil)
		sink.Apply(source.Update{Synced: true})
		<-ctx.Done()
		return nil
	}
	files := watch.Follow(watch.Options{
		Files: func() []string { return []string{r.o.File} }, Quiet: 100 * time.Millisecond, Every: 10 * time.Second, Log: r.o.Log,
	})
	defer files.Stop()
	sink.Apply(source.Update{Problems: r.read(), Synced: true})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-files.Changed():
			sink.Apply(source.Update{Problems: r.read()})
		}
	}
}

// read applies the file to the running sources, and returns the problems of the file.
func (r *Registries) read() map[string][]mesh.Problem {
	at := r.o.File
	problem := func(line int, field, message string) mesh.Problem {
		return mesh.Problem{
			Object: mesh.ObjectRef{Kind: "registries", File: at, Line: 1}, Line: line, Field: field, Code: code.BadValue,
			Severity: mesh.Error, Message: message, Fix: "docs/registries.md has the fields; until then the registry is read as before",
		}
	}
	content, _, err := disk.Read(disk.OS, at, mostBytes)
	if disk.Gone(err) {
		content, err = nil, nil
	}
	var all []*yaml.Node
	if err == nil {
		all, err = parse(content)
	}
	if err != nil { // the last good entries stay in force
		r.settle(r.last)
		return map[string][]mesh.Problem{at: {problem(1, "", printable.Text(err.Error(), printable.Long))}}
	}
	var problems []mesh.Problem
	now := map[string]checked{}
	for i, node := range all {
		field := "registries[" + strconv.Itoa(i) + "]"
		for _, o := range rename(node) {
			p := problem(o.line, field+"."+o.field, o.words)
			p.Code, p.Severity, p.Fix = code.Deprecated, mesh.Info, "the option counts; write its new name"
			problems = append(problems, p)
		}
		e, err := decode(node)
		var c checked
		if err == nil {
			c, err = e.check(r.o.Defaults)
		}
		if err != nil {
			for _, one := range flat(err) {
				problems = append(problems, problem(node.Line, field, printable.Text(one.Error(), printable.Long)))
			}
			// a registry that was read goes on as it was
			if before, is := r.last[e.sourceName()]; is {
				now[before.source] = before
			}
			continue
		}
		if _, twice := now[c.source]; twice {
			problems = append(problems, problem(node.Line, field, c.source+" is there twice; give each a name of its own"))
			continue
		}
		now[c.source] = c
	}
	r.last = now
	r.settle(now)
	return map[string][]mesh.Problem{at: problems}
}

// sourceName returns the name of the entry's source; empty: it has none.
func (e *Entry) sourceName() string {
	field, _, err := e.chosen()
	if err != nil {
		return ""
	}
	name := e.Name
	if name == "" {
		name = DefaultName
	}
	return sourceNames[field] + "/" + name
}

func flat(err error) []error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []error{err}
	}
	var out []error
	for _, one := range many.Unwrap() {
		out = append(out, flat(one)...)
	}
	return out
}

// settle runs the registries that the file and the flags name. If a registry in the file has the same name as one of a flag, the
// flag's counts.
func (r *Registries) settle(file map[string]checked) {
	all := map[string]checked{}
	for name, c := range file {
		all[name] = c
	}
	for i := range r.o.Flags {
		c, err := r.o.Flags[i].check(r.o.Defaults)
		if err != nil { // Validate has reported it
			continue
		}
		all[c.source] = c
	}
	var specs []lasting.Spec
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		specs = append(specs, lasting.Spec{
			Name: name, Sum: c.sum, Wait: c.wait, TTL: c.expiry,
			Make: func() (source.Source, func(), error) {
				env := r.o.Env
				env.Log = r.o.Log.With("registry", name)
				s, err := c.options.source(name, env)
				return s, nil, err
			},
		})
	}
	for _, name := range r.o.Sources.Set(specs) {
		r.o.Log.Info("the registry is read no more: nothing names it", "registry", name)
	}
}

// CheckFlags returns the errors in registries that flags name.
func CheckFlags(all []Entry) error {
	var errs []error
	for i := range all {
		if _, err := all[i].check(Defaults{}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// parse takes a registries file apart into its entries.
func parse(content []byte) ([]*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode || len(top.Content) != 2 || top.Content[0].Value != "registries" {
		return nil, errors.New("want one list in it, called registries")
	}
	list := top.Content[1]
	switch {
	case list.Kind == yaml.ScalarNode && list.Tag == "!!null":
		return nil, nil
	case list.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d: registries is not a list", list.Line)
	case len(list.Content) > mostEntries:
		return nil, fmt.Errorf("it names %d registries; %d are the most", len(list.Content), mostEntries)
	}
	return list.Content, nil
}

// decode reads one entry. If the entry is wrong, it reads as much as it can.
func decode(node *yaml.Node) (*Entry, error) {
	e := &Entry{}
	quote(node)
	text, err := yaml.Marshal(node)
	if err != nil {
		return e, err
	}
	err = sigsyaml.UnmarshalStrict(text, e)
	if err != nil {
		_ = sigsyaml.Unmarshal(text, e) // its name may be there all the same
		text := err.Error()
		for _, whose := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
			text = strings.TrimPrefix(text, whose)
		}
		err = errors.New(text)
	}
	return e, err
}

// quote quotes text: the decoder knows YAML 1.1, where n and yes are booleans, which would become the texts "false" and "true".
func quote(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range node.Content {
		quote(below)
	}
}
